"""The engines, one folder each; `base/engines.py` loads them by name."""
