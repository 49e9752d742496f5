"""Requests of Dynamo's own Rust frontend, which get their text here instead of there.

The Rust frontend neither detokenizes a chunk that has `text` nor looks for stop strings in it. It
still finds reasoning and tool calls in the text, because it alone has the request's tools.
"""
