"""Engines whose example model makes five calls, one after another, and then answers."""
