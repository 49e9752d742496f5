"""Incremental grammars for tool-call arguments: they read a model's syntax and write JSON text.

A grammar reads each character once, regardless of chunk boundaries. The class docstrings say what a
grammar holds back, and how much.
"""
