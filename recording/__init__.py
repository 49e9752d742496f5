"""Recordings of requests, written and read: the engine's output and the deltas sent for it."""
