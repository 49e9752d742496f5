"""Model output in the syntax of every parser of vLLM and SGLang, for benchmarks and tests."""
