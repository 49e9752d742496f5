"""Incremental grammars for tool-call arguments: they read a model's syntax and write JSON text.

Each grammar reads every character once, however the text is cut into chunks. The class
docstrings say what a grammar holds back and how much that can be.
"""
