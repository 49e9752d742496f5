"""One adapter per engine: all that is known of its Dynamo worker."""
