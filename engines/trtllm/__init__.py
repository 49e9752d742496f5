"""The code that depends on TensorRT-LLM and on Dynamo's worker for it."""
