"""All that Backedge knows of TensorRT-LLM and of its Dynamo worker."""
