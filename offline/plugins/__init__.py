"""Plugins, which may end an answer, change its logits, or clean its text."""

from .base import Plugin
from .json_stop import JsonStop
from .no_duplicates import NoDuplicates

__all__ = ["JsonStop", "NoDuplicates", "Plugin"]
