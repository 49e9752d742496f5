"""Adapters to the engines' own parsers, which is what gives a model its parser on day 0.

Importing a module of this package imports the engine; nothing else here does.
"""
