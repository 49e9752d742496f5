"""What the adapters to the engines' own parsers share; each is in its engine's folder."""
