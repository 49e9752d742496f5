"""Detects a model's parsers from its chat template and its vocabulary. Pure.

The template of a model with tools writes the calls of earlier turns as the model writes them. So we
render a call with it (`Evidence.turns`) and check which parsers read that call back. If there are
several, a parser with other markers that the template lacks is a worse fit. If the template writes
no call, only the markers in its text count.

Templates do not always write the reasoning of earlier turns. For reasoning, the markers in the
template's text, the variables that enable reasoning, and whether the prompt opens it all count.

The result is one format, or None with the reason and the candidates: a wrong parser costs every
request, a missing flag costs one restart.
"""

from __future__ import annotations

import functools
import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, cast

from ..base.errors import shorten
from ..base.json_types import JsonObject
from ..base.limits import MAX_SHOWN_NAME
from .compiled_format import CompiledFormat, compile_format
from .events import ToolCallArguments, ToolCallStarted
from .format import (
    CALL_STATES,
    CODE_STATES,
    FRAME_STATES,
    REASONING_STATES,
    TEXT_STATES,
    Format,
    State,
    select,
    target_state,
)
from .linear_parsers import spell_markers
from .machine import LinearParser
from .parser_lookup import known_formats, tool_format
from .schema import read_parameters

# The call that a template is asked to write. Its values are plain, and of two types.
PROBE_NAME = "find_weather"
PROBE_ARGUMENTS: JsonObject = {"city": "Paris", "days": 3}
PROBE_TOOL: JsonObject = {
    "type": "function",
    "function": {
        "name": PROBE_NAME,
        "description": "Return the weather.",
        "parameters": {
            "type": "object",
            "properties": {
                "city": {"type": "string", "description": "the city"},
                "days": {"type": "integer", "description": "how many"},
            },
            "required": ["city"],
        },
    },
}
# How a template accesses the calls of a message; markers may have the same name.
READS_CALLS = re.compile(r"\.tool_calls\b|[\"']tool_calls[\"']")
# A shorter marker occurs in any text, like a brace.
MIN_MARKER = 3
# Targets of a header that announces a call.
IN_CALLS = CALL_STATES | FRAME_STATES


@dataclass(frozen=True)
class Evidence:
    """The facts known about a model without running it.

    template: the source of its chat template, "" if the model has no template.
    variables: those that the template reads, besides the messages.
    turns: texts that the template writes for an assistant's turn with the probe's call, from
        where the model would begin. Empty if it writes no such call.
    prompts: how prompts end; the first one has no variable set.
    switches: variables for reasoning that change the prompt -> whether they are on by default.
    tokens: the texts of the vocabulary's added tokens.
    is_described: the checkpoint describes its answers, which the tokens alone do not overrule.
    """

    template: str = ""
    variables: frozenset[str] = frozenset()
    turns: tuple[str, ...] = ()
    prompts: tuple[str, ...] = ()
    switches: Mapping[str, bool] = field(default_factory=dict)
    tokens: frozenset[str] = frozenset()
    is_described: bool = False

    @property
    def has_tokens_alone(self) -> bool:
        """Whether nothing but the tokens tells how the model answers."""
        return not (self.template or self.is_described)

    @property
    def takes_tools(self) -> bool:
        """Whether the template uses tools."""
        return "tools" in self.variables or READS_CALLS.search(self.template) is not None


@dataclass(frozen=True)
class Candidate:
    """A format that was considered, with the reason for or against it."""

    name: str
    reason: str


@dataclass(frozen=True)
class Detection:
    """The result. format: None if no format fits, or several fit equally well."""

    format: Format | None
    reason: str
    candidates: tuple[Candidate, ...] = ()


def detect_tool_calls(evidence: Evidence) -> Detection:
    """Return the format in which the model writes its calls."""
    if evidence.template and not evidence.takes_tools:
        return Detection(None, "the chat template takes no tools")
    formats = _spell((entry.tools for entry in known_formats().values()), evidence.tokens)
    if evidence.turns:
        known = _KnownText(evidence)
        found = _select_readers(formats, known, evidence.turns)
        fit = "reads the calls that the chat template writes"
    else:
        # The vocabulary proves less: it may have the markers of a whole family.
        known, fit = _KnownText(evidence), "has markers that are in the chat template"
        found = _select_mentioned(formats, known)
        if not found and not evidence.is_described:
            known, fit = _KnownText(evidence, tokens=True), "has markers that are tokens"
            found = _select_mentioned(formats, known)
    reasons = {name: _describe(formats[name].spelled, known, fit) for name in found}
    if not found:
        return Detection(None, *_explain_no_calls(evidence, formats, known))
    scores = _scores(formats, known)
    ranks = {name: (not formats[name].format.declared_only, scores[name]) for name in found}
    return _choose(formats, ranks, reasons)


def detect_reasoning(evidence: Evidence, tools: Format | None = None) -> Detection:
    """Return the format of the model's reasoning.

    tools: the format of its calls, if known, which often determines the reasoning as well.
    """
    known = _KnownText(evidence, tokens=evidence.has_tokens_alone)
    formats = _spell((entry.reasoning for entry in known_formats().values()), evidence.tokens)
    scores = _scores(formats, known)
    mentioned = [
        name
        for name, both in formats.items()
        if known.find(_reasoning_ends(both.spelled))
        and _may_reason(both, tools, known, scores[name])
    ]
    if not mentioned:
        return Detection(None, "the chat template has no markers of reasoning")
    reasons = {name: _describe_reasoning(formats[name].spelled, evidence) for name in mentioned}
    switches = evidence.switches.keys()
    ranks = {
        name: (
            formats[name].format is tools,
            formats[name].format.parses_tools,  # of the same family, by its call markers
            -len(switches ^ formats[name].format.thinking_flags.keys()),
            formats[name].format.thinks_by_default,  # which fewer prompts show
        )
        for name in mentioned
        if _fits_switches(formats[name].spelled, evidence)
    }
    if ranks:
        return _choose(
            formats, {name: (*rank, scores[name]) for name, rank in ranks.items()}, reasons
        )
    return Detection(
        None,
        "the chat template has markers of reasoning, but does not show whether the model reasons "
        "by default",
        tuple(Candidate(name, reasons[name]) for name in mentioned),
    )


def reads_probe(table: CompiledFormat, turn: str) -> bool:
    """Whether a format's parser finds exactly the probe's call in `turn`.

    table: as returned by `probe_table`.
    """
    parser = LinearParser(table, read_parameters([PROBE_TOOL]), None)
    events = [*parser.feed(turn), *parser.finish()]
    names = [event.name for event in events if isinstance(event, ToolCallStarted)]
    text = "".join(event.text for event in events if isinstance(event, ToolCallArguments))
    try:
        return names == [PROBE_NAME] and json.loads(text) == PROBE_ARGUMENTS
    except ValueError:
        return False


def probe_table(format_: Format) -> CompiledFormat:
    """Return the table that reads the probe's call, with all markers as text."""
    reasons = format_.parses_reasoning and not format_.thinks_by_default
    return compile_format(format_ if reasons else None, format_, {})


@functools.cache
def _known_table(name: str) -> CompiledFormat:
    """Return the table of a format whose markers have the same spelling in every vocabulary."""
    return probe_table(cast("Format", tool_format(name)))


class _Spelled(NamedTuple):
    """A format, and the same with the vocabulary's spelling of its markers."""

    format: Format
    spelled: Format


class _KnownText:
    """The text to search for markers. tokens: include the added tokens."""

    def __init__(self, evidence: Evidence, *, tokens: bool = False) -> None:
        # Jinja escapes line breaks and quotes in strings as Python does.
        unescaped = evidence.template.replace("\\n", "\n").replace('\\"', '"').replace("\\'", "'")
        texts = [evidence.template, unescaped, *evidence.turns, *evidence.prompts]
        self._text = "\0".join(texts)
        self._tokens = evidence.tokens if tokens else frozenset[str]()

    def find(self, markers: Iterable[str]) -> list[str]:
        """Return the `markers` that occur."""
        return [marker for marker in markers if marker in self._text or marker in self._tokens]


def _spell(
    formats: Iterable[Format | None], tokens: frozenset[str] = frozenset()
) -> dict[str, _Spelled]:
    """Return the formats by name, in alphabetical order."""
    by_name = {format_.name: format_ for format_ in formats if format_ is not None}
    return {
        name: _Spelled(by_name[name], spell_markers(by_name[name], tokens))
        for name in sorted(by_name)
    }


def _select_readers(
    formats: Mapping[str, _Spelled], known: _KnownText, turns: Iterable[str]
) -> list[str]:
    """Return the formats whose parser reads the probe's call in one of `turns`."""
    tables = {
        name: _known_table(name) if spelled is format_ else probe_table(spelled)
        for name, (format_, spelled) in formats.items()
        if _has_hint(format_, known)
    }
    return [
        name for name, table in tables.items() if any(reads_probe(table, turn) for turn in turns)
    ]


def _select_mentioned(formats: Mapping[str, _Spelled], known: _KnownText) -> list[str]:
    """Return the formats of which more markers occur than are missing."""
    scores = _scores(formats, known)
    return [
        name
        for name, (format_, spelled) in formats.items()
        if _has_hint(format_, known) and scores[name] > 0 and known.find(_call_openers(spelled))
    ]


def _has_hint(format_: Format, known: _KnownText) -> bool:
    return not format_.hints or bool(known.find(format_.hints))


def _plain(markers: Iterable[str]) -> list[str]:
    """Return the markers longer than a sign, without surrounding white space."""
    stripped = (marker.strip() for marker in markers)
    return list(dict.fromkeys(marker for marker in stripped if len(marker) >= MIN_MARKER))


def _call_markers(format_: Format) -> list[str]:
    """Return the markers except those of reasoning, which is detected separately."""
    return _plain(
        marker
        for state, by_marker in format_.states.items()
        if state not in REASONING_STATES
        for marker, target in by_marker.items()
        if target_state(target) not in REASONING_STATES
    )


def _call_openers(format_: Format) -> list[str]:
    """Return the markers that begin a call, or the section of all calls."""
    states = set(CALL_STATES)
    if any(target in IN_CALLS for _, target in format_.headers):
        states.add(State.HEADER)
    return _plain(
        marker for state in TEXT_STATES for marker in select(format_.states.get(state, {}), states)
    )


def _reasoning_starts(format_: Format) -> list[str]:
    return _plain(select(format_.states.get(State.START, {}), REASONING_STATES))


def _reasoning_ends(format_: Format) -> list[str]:
    ends = {*TEXT_STATES - CODE_STATES - REASONING_STATES, State.HEADER}
    return _plain(select(format_.states.get(State.REASONING, {}), ends))


def _scores(formats: Mapping[str, _Spelled], known: _KnownText) -> dict[str, float]:
    """Return how well the markers of each format fit: those found, less those missing.

    A marker counts less if many formats have it.
    """
    markers = {name: _call_markers(both.spelled) for name, both in formats.items()}
    sharing = Counter(marker for own in markers.values() for marker in own)
    scores = {}
    for name, own in markers.items():
        found = set(known.find(own))
        scores[name] = sum((1 if marker in found else -1) / sharing[marker] for marker in own)
        scores[name] += len(known.find(formats[name].format.hints))
    return scores


def _choose(
    formats: Mapping[str, _Spelled],
    ranks: Mapping[str, tuple[float, ...]],
    reasons: Mapping[str, str],
) -> Detection:
    """Return the format of the highest rank, or no format if two share it."""
    best = max(ranks.values())
    first = [name for name, rank in ranks.items() if rank == best]
    candidates = tuple(Candidate(name, reasons[name]) for name in ranks)
    if len(first) > 1:
        return Detection(None, f"{', '.join(first)} fit equally well", candidates)
    return Detection(formats[first[0]].format, reasons[first[0]], candidates)


def _describe(format_: Format, known: _KnownText, fit: str) -> str:
    found = known.find(_call_openers(format_))
    return f"{fit} ({', '.join(found)})" if found else fit


def _explain_no_calls(
    evidence: Evidence, formats: Mapping[str, _Spelled], known: _KnownText
) -> tuple[str, tuple[Candidate, ...]]:
    """Return why no format fits, and those that come closest."""
    if evidence.turns:
        reason = (
            "no linear parser reads the calls that the chat template writes: "
            f"{shorten(evidence.turns[0].strip(), MAX_SHOWN_NAME)!r}"
        )
    elif evidence.template:
        reason = "the chat template takes tools, but has the markers of no format"
    else:
        reason = "there is no chat template, and the tokens are those of no format"
    near = {name: known.find(_call_openers(both.spelled)) for name, both in formats.items()}
    return reason, tuple(
        Candidate(name, f"the chat template has its {', '.join(found)}")
        for name, found in near.items()
        if found
    )


def _may_reason(both: _Spelled, tools: Format | None, known: _KnownText, score: float) -> bool:
    """Whether a format that also has calls suits the model; other formats suit any model."""
    if not both.format.parses_tools or both.format is tools:
        return True
    reads_itself = tools is not None and tools.parses_reasoning
    return not reads_itself and score > 0 and _has_hint(both.format, known)


def _fits_switches(format_: Format, evidence: Evidence) -> bool:
    """Whether the model reasons in the cases in which the format's parser assumes so."""
    flags = format_.thinking_flags.keys()
    if flags and flags.isdisjoint(evidence.switches):
        return False
    if not format_.thinks_by_default:
        return format_.parses_tools or _shows_reasoning(format_, evidence.prompts)
    if _shows_reasoning(format_, evidence.prompts[:1]):
        return True
    return bool(evidence.switches) and all(evidence.switches.values())


def _shows_reasoning(format_: Format, prompts: Iterable[str]) -> bool:
    """Whether a prompt ends with reasoning that it has opened, or opened and closed."""
    starts = _reasoning_starts(format_)
    return any(start in prompt for prompt in prompts for start in starts)


def _describe_reasoning(format_: Format, evidence: Evidence) -> str:
    parts = [f"has markers that are in the chat template ({', '.join(_reasoning_ends(format_))})"]
    flags = ", ".join(sorted(format_.thinking_flags.keys() & evidence.switches))
    if flags:
        parts.append(f"its variable {flags}")
    if _shows_reasoning(format_, evidence.prompts):
        parts.append("a prompt that opens reasoning")
    return ", ".join(parts)
