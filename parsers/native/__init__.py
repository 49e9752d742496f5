"""The shared parts of the adapters to the engines' own parsers."""
