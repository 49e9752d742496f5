"""Code for all other folders: errors, limits, JSON types, and the loader of engines."""
