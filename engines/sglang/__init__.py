"""The code that depends on SGLang and on Dynamo's worker for it."""
