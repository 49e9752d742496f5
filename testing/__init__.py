"""Tools for tests, demos and authors of tokenizers."""
