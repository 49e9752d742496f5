"""Plugins: what may end an answer, change its logits, or clean its text."""

from .base import Plugin

__all__ = ["Plugin"]
