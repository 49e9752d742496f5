"""Arguments that the model wrote as a JSON string that contains JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Callable

from .incremental_grammar import Status
from .json_repair import JsonRepairer
from .json_text import WriteJson

_HIGH_SURROGATE = re.compile(r"\\u[dD][89abAB]")


class JsonInString:
    """Reads JSON in a JSON string.

    Takes the pieces of the JSON string and writes the value inside it; `stray` takes what follows
    that value. cut: is called if the string ends within it. Holds back half of a surrogate pair,
    and what `JsonRepairer` holds back.
    """

    def __init__(self, value: JsonRepairer, stray: WriteJson, cut: Callable[[], object]) -> None:
        self._value = value
        self._stray = stray
        self._cut = cut
        self._held = ""
        self._surrogate = ""

    def __call__(self, piece: str) -> None:
        """Read the next piece of the JSON string."""
        if piece == '"':
            return
        if _HIGH_SURROGATE.match(piece):
            self._surrogate = piece
            return
        text = self._held + json.loads(f'"{self._surrogate}{piece}"')
        self._surrogate = ""
        if not self._has_ended:
            text = text[self._value.read_far(text) :]
        if self._has_ended:
            self._held = ""
            self._stray(text)
        else:
            self._held = text

    @property
    def _has_ended(self) -> bool:
        return self._value.status is Status.DONE

    def finish(self) -> None:
        """Write what is held back: the string has ended."""
        if not self._has_ended:
            self._value.read(self._held, final=True)
        if not self._has_ended:
            self._cut()
            self._value.close()
