"""Post-processing for Dynamo's own Rust frontend: the worker sends it text.

The Rust frontend neither detokenizes a chunk that has `text` nor searches it for stop strings. It
still parses reasoning and tool calls, because only it has the request's tools.
"""
