"""Calls that a model wrote with a slip: what a client gets of them, by format."""
