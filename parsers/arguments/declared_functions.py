"""The functions that a request declares: the names and keys that its calls may have."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping

from ...base.json_types import JsonObject
from ..schema import FunctionSchema

# A piece of the tag around a key.
_FRAME = re.compile("<[^<>]*>|[\"'=<>]")
# The name of a function that is not declared. A bare number is a call's counter.
_NAME = re.compile(r"(?!\d+\Z)\w(?:[\w.:/$\-]*\w)?")
_COUNTER = re.compile(r"\d+")
_MARKS = ".:/-"


class DeclaredFunctions:
    """The functions that calls name, declared or not. Iteration gives the declared names.

    parameters: each declared function's JSON schema by name; without any, every name and key is
        taken.
    checks: names, keys and required parameters count.
    """

    def __init__(self, parameters: Mapping[str, JsonObject], *, checks: bool) -> None:
        self._parameters = parameters
        self._checks = checks
        self._compiled: dict[str, FunctionSchema] = {}

    def __contains__(self, name: object) -> bool:
        return name in self._parameters

    def __iter__(self) -> Iterator[str]:
        return iter(self._parameters)

    def schema(self, name: str) -> FunctionSchema:
        """Return the compiled schema of the parameters; that of `{}` if it is not declared."""
        compiled = self._compiled.get(name)
        if compiled is None:
            compiled = self._compiled[name] = FunctionSchema(self._parameters.get(name, {}))
        return compiled

    def keys(self, name: str) -> Collection[str]:
        """Return the parameters that the function `name` declares itself, in their order."""
        properties = self._parameters.get(name, {}).get("properties")
        return properties if isinstance(properties, dict) else ()

    def required(self, name: str) -> Collection[str]:
        """Return the parameters that a call needs, as far as that is checked."""
        required = self._parameters.get(name, {}).get("required")
        if not self._checks or not isinstance(required, list):
            return ()
        return [key for key in required if isinstance(key, str)]

    def find_name(self, name: str, namespace: str) -> str:
        """Return the longest declared end of `name` without namespaces, or else `name`.

        namespace: the mark that ends each namespace; "" if a name has none.
        """
        rest = name
        while namespace and rest not in self and namespace in rest:
            rest = rest.partition(namespace)[2]
        return rest if rest in self else name

    def may_be_name(self, name: str, frame_words: Collection[str] = ()) -> bool:
        """Whether a function may have this name: it is declared, or looks like one.

        frame_words: of the format, around a call, with "0" for a counter beside the name. None of
        them is a name, alone or at an end of a declared one; nor is that with its own parameter.
        """
        if not self._checks or not self._parameters or name in self:
            return True
        if name in frame_words or _NAME.fullmatch(name) is None:
            return False
        return not frame_words or not any(
            _COUNTER.sub("0", word) in frame_words or word in self.keys(known)
            for known in self
            if known
            for word in _find_rests(name, known)
        )

    def has_frame(self, name: str, key: str) -> bool:
        """Whether a key in a tag is a declared one with pieces of the tag, which is a slip.

        It may have a mark of the tag around it, or a quote and more after it.
        """
        declared = self.keys(name)
        if not self._checks or key in declared:
            return False
        bare, first = _FRAME.sub("", key).strip(), key.partition('"')[0]
        return (bare in declared and bare != key.strip()) or ('"' in key and first in declared)


def _find_rests(name: str, known: str) -> Iterator[str]:
    """Yield the word that `name` has beside `known` if one of its ends is that."""
    if name.startswith(known):
        yield name.removeprefix(known).strip(_MARKS)
    if name.endswith(known):
        yield name.removesuffix(known).strip(_MARKS)
