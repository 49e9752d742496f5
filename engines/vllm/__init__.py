"""The code that depends on vLLM and on Dynamo's worker for it."""
