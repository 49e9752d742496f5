"""All that Backedge knows of SGLang and of its Dynamo worker."""
