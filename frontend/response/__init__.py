"""Reads the workers' chunks, and writes them for the client."""
