"""`--beside tool=hermes,reasoning=qwen3,kind=native`: other parsers for the same tokens."""

from __future__ import annotations

from typing import NamedTuple, cast, get_args

from ...base.errors import SetupError
from ...parsers.base import ParserNames
from ...parsers.parser_lookup import Kind
from ...recording.recording import RecordedModel

KEYS = ("tool", "reasoning", "kind")
KINDS = get_args(Kind)


class ParserChoice(NamedTuple):
    """The names of parsers, and their kind."""

    names: ParserNames
    kind: Kind


def recorded_choice(model: RecordedModel) -> ParserChoice:
    """Return the parsers that were recorded."""
    return ParserChoice(model.parsers, model.kind)


def read_beside(text: str, model: RecordedModel) -> ParserChoice:
    """Parse --beside; parts that it omits are as recorded.

    An empty name or "none" means no parser.
    Raises `SetupError` for another form.
    """
    found: dict[str, str] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        key, separator, value = part.partition("=")
        if not separator or key not in KEYS:
            raise SetupError(
                f"--beside: {part!r} is not valid; write, for example, "
                "tool=hermes,reasoning=qwen3,kind=native."
            )
        found[key] = value
    kind = found.get("kind", model.kind)
    if kind not in KINDS:
        raise SetupError(f"--beside: kind={kind} must be one of {', '.join(KINDS)}.")
    names = ParserNames(
        _read_name(found.get("tool", model.parsers.tool_call)),
        _read_name(found.get("reasoning", model.parsers.reasoning)),
    )
    return ParserChoice(names, cast("Kind", kind))


def _read_name(name: str | None) -> str | None:
    return None if name in (None, "", "none") else name
