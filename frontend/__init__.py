"""The frontend: checks, renders and routes requests, and passes on the deltas of the workers."""
