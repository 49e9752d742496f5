"""A Dynamo worker without a model: it replays recorded outputs as token streams.

It needs no GPU, no engine and no torch. The runtime, the model card, the endpoint and the
post-processing are the real ones; in the engine's place, the transcript whose prompt the
request has gives its tokens at a given pace.
"""
