"""Which parsers fit a model, from its chat template and its vocabulary. Pure.

The template of a model with tools writes the calls of earlier turns as the model itself writes
them. So whoever has rendered a call with it (`Evidence.turns`) can ask each parser whether it reads
that call back. Several may: those whose other markers the template does not know are worse fits. A
template that writes no call is judged by the markers in its text alone.

Reasoning is not always in a template's history. What counts is the markers in its text, the
variables that switch reasoning on, and whether the prompt opens it.

The answer is one format, or none with the reason and what came into question: a wrong parser
costs every request, a missing flag costs one restart.
"""

from __future__ import annotations

import functools
import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, cast

from ..base.errors import MAX_SHOWN_NAME, shorten
from ..base.json_types import JsonObject
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
    target_state,
)
from .linear_parsers import spell_markers
from .parser_lookup import known_formats, tool_format
from .schema import read_parameters
from .state_machine import LinearParser

# The call that a template is asked to write. Its values are of two types, and plain.
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
# Where a template reads the calls of a message; markers may have the same name.
READS_CALLS = re.compile(r"\.tool_calls\b|[\"']tool_calls[\"']")
# A shorter one is a sign that occurs in any text, like a brace.
MIN_MARKER = 3
# What a header leads to where it announces a call.
IN_CALLS = CALL_STATES | FRAME_STATES


@dataclass(frozen=True)
class Evidence:
    """What is known of a model without running it.

    template: the source of its chat template, "" if there is none.
    variables: what the template reads besides the messages.
    turns: texts that the template writes for an assistant's turn with the probe's call, from
        where the model would begin. Empty if it writes none.
    prompts: how prompts end; the first is the one without any variable set.
    switches: variables that change the prompt and are for reasoning: whether each is on where it
        is not set.
    tokens: the texts of the vocabulary's added tokens.
    """

    template: str = ""
    variables: frozenset[str] = frozenset()
    turns: tuple[str, ...] = ()
    prompts: tuple[str, ...] = ()
    switches: Mapping[str, bool] = field(default_factory=dict)
    tokens: frozenset[str] = frozenset()

    @property
    def takes_tools(self) -> bool:
        """Whether the template does anything with tools."""
        return "tools" in self.variables or READS_CALLS.search(self.template) is not None


@dataclass(frozen=True)
class Candidate:
    """A format that came into question, and what speaks for it or against it."""

    name: str
    reason: str


@dataclass(frozen=True)
class Detection:
    """What was found. format: None where nothing fits, or several formats fit equally well."""

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
        # What the vocabulary holds says less: it may have the markers of a whole family.
        known, fit = _KnownText(evidence), "has markers that are in the chat template"
        found = _select_mentioned(formats, known)
        if not found:
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

    tools: the format of its calls, if there is one; it often says how reasoning looks, too.
    """
    known = _KnownText(evidence, tokens=not evidence.template)
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
            formats[name].format.parses_tools,  # of the same family, by its markers of calls
            -len(switches ^ formats[name].format.thinking_flags.keys()),
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
        "the chat template knows markers of reasoning, but does not show that the model reasons "
        "unless it is asked not to",
        tuple(Candidate(name, reasons[name]) for name in mentioned),
    )


def reads_probe(table: CompiledFormat, turn: str) -> bool:
    """Whether a format's parser finds the probe's call in `turn`, and only that one.

    table: of `probe_table`.
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
    """Return the table of a format whose markers every vocabulary spells alike."""
    return probe_table(cast("Format", tool_format(name)))


class _Spelled(NamedTuple):
    """A format, and the same with its markers as the vocabulary spells them."""

    format: Format
    spelled: Format


class _KnownText:
    """The text in which markers are looked for. tokens: also the added tokens."""

    def __init__(self, evidence: Evidence, *, tokens: bool = False) -> None:
        # Jinja writes line breaks and quotes in its strings as Python does.
        unescaped = evidence.template.replace("\\n", "\n").replace('\\"', '"').replace("\\'", "'")
        texts = [evidence.template, unescaped, *evidence.turns, *evidence.prompts]
        self._text = "\0".join(texts)
        self._tokens = evidence.tokens if tokens else frozenset[str]()

    def find(self, markers: Iterable[str]) -> list[str]:
        """Return those of `markers` that occur."""
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
    """Return the markers that are more than a sign, without the white space around them."""
    stripped = (marker.strip() for marker in markers)
    return list(dict.fromkeys(marker for marker in stripped if len(marker) >= MIN_MARKER))


def _call_markers(format_: Format) -> list[str]:
    """Return the markers that are not of reasoning, which has a detection of its own."""
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
        marker
        for state in TEXT_STATES
        for marker, target in format_.states.get(state, {}).items()
        if target_state(target) in states
    )


def _reasoning_starts(format_: Format) -> list[str]:
    return _plain(
        marker
        for marker, target in format_.states.get(State.START, {}).items()
        if target_state(target) in REASONING_STATES
    )


def _reasoning_ends(format_: Format) -> list[str]:
    ends = {*TEXT_STATES - CODE_STATES - REASONING_STATES, State.HEADER}
    return _plain(
        marker
        for marker, target in format_.states.get(State.REASONING, {}).items()
        if target_state(target) in ends
    )


def _scores(formats: Mapping[str, _Spelled], known: _KnownText) -> dict[str, float]:
    """Return how well the markers of each format fit: those found, less those missing.

    A marker that many formats have says little, found or not.
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
    """Return the format of the highest rank, or a refusal if two have it."""
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
    """Whether a format that also has calls is the model's; others are for any model."""
    if not both.format.parses_tools or both.format is tools:
        return True
    reads_itself = tools is not None and tools.parses_reasoning
    return not reads_itself and score > 0 and _has_hint(both.format, known)


def _fits_switches(format_: Format, evidence: Evidence) -> bool:
    """Whether the model reasons when the format's parser takes its output for reasoning."""
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
