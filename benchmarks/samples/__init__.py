"""Model output in the syntax of every parser that vLLM or SGLang registers, for benchmarks and tests."""
