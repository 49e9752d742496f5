"""The syntax of models' calls as a grammar for engines: xgrammar's structural tags.

vLLM, SGLang and TensorRT-LLM all support them, so every engine constrains a request alike.
Source: xgrammar 0.2, docs "Structural Tag Usage".
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from ..base.json_types import JsonObject

Choice = Literal["any", "some", "one"]
"""The calls of an answer: any number besides text, only calls but at least one, exactly one."""
# Other names would need escaping, which differs by format.
_PLAIN_NAME = re.compile(r"[\w.:/-]+")


@dataclass(frozen=True)
class CallTags:
    """The text around the arguments of a call.

    trigger: text that only a call begins with; each of `begins`, or the section, begins with it.
    begins: alternatives for the text before the arguments, with `{name}` for the function's name.
    end: the text after them.
    section: the begin and end of the section that holds all calls; None without a section.
    separator: optional text before each call but the first.
    index: a regular expression that follows the begin, and the text after it; None for none.
    style: xgrammar's name for the syntax of the arguments.
    """

    trigger: str
    begins: tuple[str, ...]
    end: str
    section: tuple[str, str] | None = None
    separator: str = ""
    index: tuple[str, str] | None = None
    style: str = "json"

    def build_tag(
        self, tools: Sequence[tuple[str, JsonObject]], choice: Choice, *, any_order: bool = False
    ) -> JsonObject | None:
        """Return a structural tag for calls of the tools; None if a name cannot be expressed.

        tools: the names, each with the schema of its arguments.
        any_order: whether the arguments may be in another order than in the schema.
        """
        if not all(_PLAIN_NAME.fullmatch(name) for name, _ in tools):
            return None
        # Before the first call, the separator is white space that a parser drops.
        in_text = choice == "any" and self.section is None
        separators = [""] if in_text or not self.separator else ["", self.separator]
        calls = [
            _tag(
                separator + begin.replace("{name}", name),
                self._arguments(schema, any_order),
                self.end,
            )
            for name, schema in tools
            for separator in separators
            for begin in self.begins
        ]
        return {"type": "structural_tag", "format": self._join(calls, choice)}

    def _arguments(self, schema: JsonObject, any_order: bool) -> JsonObject:
        arguments: JsonObject = {
            "type": "json_schema",
            "json_schema": schema,
            "style": self.style,
            "any_order": any_order,
        }
        if self.index is None:
            return arguments
        pattern, text = self.index
        between = [{"type": "regex", "pattern": pattern}, {"type": "const_string", "value": text}]
        return {"type": "sequence", "elements": [*between, arguments]}

    def _join(self, calls: list[JsonObject], choice: Choice) -> JsonObject:
        sequence: JsonObject = {
            "type": "tags_with_separator",
            "tags": calls,
            "separator": "",
            "at_least_one": True,
            "stop_after_first": choice == "one",
        }
        if self.section is not None:
            calls = [_tag(self.section[0], sequence, self.section[1])]
            sequence = calls[0]
        if choice != "any":
            return sequence
        return {"type": "triggered_tags", "triggers": [self.trigger], "tags": calls}


def _tag(begin: str, content: JsonObject, end: str) -> JsonObject:
    return {"type": "tag", "begin": begin, "content": content, "end": end}
