"""A Dynamo worker without a model: it replays recorded outputs as token streams.

It needs no GPU, engine or torch. Runtime, model card, endpoint and post-processing are the real
ones; only the engine is replaced: the transcript with the request's prompt gives its tokens at a
set pace.
"""
