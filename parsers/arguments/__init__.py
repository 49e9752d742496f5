"""Incremental grammars of tool-call arguments: a model's own syntax in, JSON text out.

Each reads a character once, whatever the chunks are, and says in its docstring
what it holds back.
"""
