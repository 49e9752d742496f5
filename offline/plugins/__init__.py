"""Plugins, which may end an answer, change its logits, or clean its text."""

from .base import Plugin
from .json_plugins import JsonStop, NoDuplicates

__all__ = ["JsonStop", "NoDuplicates", "Plugin"]
