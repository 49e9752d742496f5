"""What all other folders may use: errors, limits, types of JSON, the way to an engine's folder."""
