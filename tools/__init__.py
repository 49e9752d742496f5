"""What `make run`, the tests and the benchmarks share; not part of the package."""
