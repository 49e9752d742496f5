"""Shared code of `make run`, the tests and the benchmarks; not part of the package."""
