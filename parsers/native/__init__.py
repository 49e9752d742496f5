"""Adapters to the engines' own parsers, which serve a new model from its first day.

`vllm.py`, `sglang.py` and `trtllm.py` import their engine; nothing else in `backedge.parsers` does.
"""
