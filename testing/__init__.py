"""What only tests, demos and authors of tokenizers need."""
