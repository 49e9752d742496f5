"""Chat templates: how they are found, rendered within bounds, and probed."""
