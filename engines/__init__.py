"""The engines, each in a folder of its own; `base/engines.py` loads them by name."""
