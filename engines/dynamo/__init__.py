"""The code that depends on Dynamo itself."""
