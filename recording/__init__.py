"""Recordings of requests: what was generated, and what was made of it; written and read again."""
