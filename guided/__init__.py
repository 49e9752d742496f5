"""Grammars that constrain answers: the request's fields, their checks, and the policy."""
