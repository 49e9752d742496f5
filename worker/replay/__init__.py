"""A Dynamo worker without a model: it replays recorded outputs."""
