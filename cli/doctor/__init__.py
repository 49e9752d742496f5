"""Says what fits together, and what does not: versions, a model and its parsers, a fleet."""
