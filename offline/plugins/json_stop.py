"""Ends an answer when its first JSON object or array is complete."""

from __future__ import annotations

from typing_extensions import override

from ..completion import TextWatcher
from .base import Plugin
from .json_scanner import JsonScanner


class JsonStop(Plugin):
    """Stops where the first JSON value is complete; text before it is kept."""

    name = "json_stop"

    @override
    def watch(self) -> TextWatcher:
        return JsonWatcher()


class JsonWatcher(TextWatcher):
    """Reads one answer."""

    name = JsonStop.name

    def __init__(self) -> None:
        self._scanner = JsonScanner()

    @override
    def feed(self, text: str) -> int | None:
        for count, char in enumerate(text, 1):
            if self._scanner.feed(char):
                return count
        return None
