"""A long run under faults: `python -m tests.soak --minutes 60`, or `make soak MINUTES=60`."""
