"""Code that all other folders may use: errors, limits, JSON types, and the loader of engines."""
