"""All that Backedge knows of vLLM and of its Dynamo worker."""
