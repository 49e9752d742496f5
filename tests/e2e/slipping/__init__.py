"""Engines whose model writes a call with a slip at its first attempt.

A request's seed is the number of its script. Another attempt is held to a grammar; there the model
writes what it likes.
"""
