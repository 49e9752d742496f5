"""Checks compatibility: of versions, of a model and its parsers, of a fleet."""
