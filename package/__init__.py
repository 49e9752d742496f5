"""Backedge; `python -m backedge` is its command."""
