"""What is known of each engine's Dynamo worker."""
