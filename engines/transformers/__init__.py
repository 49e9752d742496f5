"""Models without a serving engine: tokenizer.json, a chat template, and transformers."""
