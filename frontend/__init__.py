"""The frontend: checks, renders and routes requests, and forwards the workers' deltas."""
