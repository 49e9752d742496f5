"""The functions that a request declares: the names and keys that its calls may have."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping

from ...base.json_types import JsonObject
from ..schema import FunctionSchema

# A sign that a parameter's key holds a piece of the markup around it; beside declared keys, more.
_MARKUP = re.compile("[<>=\"'\n]")
_PUNCTUATION = re.compile(r"[,:;|(){}\[\]]|\A\s|\s\Z")
# The name of a function that is not declared. A bare number is a call's counter.
_NAME = re.compile(r"(?!\d+\Z)\w(?:[\w.:/$\-]*\w)?")


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
        """Return the longest declared end of `name`, behind namespaces; `name` if none is declared.

        namespace: the mark that ends each namespace; "" if a name has none.
        """
        rest = name
        while namespace and rest not in self and namespace in rest:
            rest = rest.partition(namespace)[2]
        return rest if rest in self else name

    def may_be_name(self, name: str, frame_words: Collection[str] = ()) -> bool:
        """Whether a function may have this name: it is declared, or looks like one.

        A declared name with more at one end of it does not, nor do `frame_words`, the words that
        the format itself writes around a call.
        """
        if not self._checks or not self._parameters or name in self:
            return True
        looks_like_one = name not in frame_words and _NAME.fullmatch(name) is not None
        return looks_like_one and not any(
            known and (name.startswith(known) or name.endswith(known)) for known in self
        )

    def may_be_key(self, name: str, key: str, frame_keys: Collection[str] = ()) -> bool:
        """Whether a parameter may have this key: it is declared, or may be and has no markup.

        frame_keys: of the object around the arguments: beside declared keys, one is markup.
        """
        schema, declared = self._parameters.get(name, {}), self.keys(name)
        if not self._checks or key in declared:
            return True
        if not self._parameters or self.schema(name).root.has_property(key):
            return True  # nothing is known, or it is of a part: `allOf`, a reference
        if not key or _MARKUP.search(key) is not None:
            return self.schema(name).member(key).declared
        if not declared or "patternProperties" in schema:
            return True
        is_markup = key in frame_keys or _PUNCTUATION.search(key) is not None
        return schema.get("additionalProperties") is not False and not is_markup
