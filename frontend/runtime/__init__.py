"""Threads, event loops and garbage collection of the frontend process."""
