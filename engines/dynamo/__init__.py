"""All that Backedge knows of Dynamo itself."""
