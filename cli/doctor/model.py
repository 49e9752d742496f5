"""Checks a model's files: parsers, template, end of answers, context length."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ...base.errors import REASONING_FLAG, TOOL_CALL_FLAG
from ...parsers.base import ParserNames
from ...parsers.detection import Detection, Evidence, detect_reasoning, detect_tool_calls
from ...parsers.format import Format
from ...parsers.response_template import DESCRIBED, describes
from ...templates.auto_parsers import (
    AUTO,
    detect_described,
    read_added_tokens,
    read_description,
    read_evidence,
)
from ...tokenization.model_files import ModelFolder, find_folder
from ...worker.stock_frontends import name_in_rust
from .findings import Finding


class ModelFacts(NamedTuple):
    """The facts read from a model's files. tools, reasoning: what was detected."""

    files: ModelFolder
    evidence: Evidence
    token_ids: dict[str, int]
    tools: Detection
    reasoning: Detection
    description: str | None = None

    @property
    def names(self) -> ParserNames:
        """The names of the detected parsers."""
        found = ((self.tools, TOOL_CALL_FLAG), (self.reasoning, REASONING_FLAG))
        return ParserNames(*(self._name(detection, flag) for detection, flag in found))

    def _name(self, detection: Detection, flag: str) -> str | None:
        if detection.format is not None:
            return detection.format.name
        return DESCRIBED if self.is_native(flag) else None

    def is_native(self, flag: str) -> bool:
        """Whether the description has what a flag names a parser of; no table may hold it."""
        return self.description is not None and describes(self.description, flag)

    def resolve(self, names: ParserNames) -> ParserNames:
        """Replace "auto" in `names` by what was detected, "template" by the description."""
        chosen = (
            self.names.tool_call if names.tool_call == AUTO else names.tool_call,
            self.names.reasoning if names.reasoning == AUTO else names.reasoning,
        )
        own = self.description or DESCRIBED
        return ParserNames(*(own if name == DESCRIBED else name for name in chosen))


def read_model(model: str, chat_template: str | None, revision: str | None) -> ModelFacts:
    """Read the facts of a model: a folder, or a name on the hub.

    chat_template: a Jinja file instead of the model's own. Raises `SetupError`.
    """
    folder = find_folder(model, revision)
    evidence = read_evidence(folder, chat_template)
    tools = detect_tool_calls(evidence)
    token_ids = read_added_tokens(folder)
    reasoning = detect_reasoning(evidence, tools.format)
    files = ModelFolder(folder, token_id=token_ids.get)
    own = read_description(folder)
    tools = detect_described(tools, TOOL_CALL_FLAG, own)
    reasoning = detect_described(reasoning, REASONING_FLAG, own)
    return ModelFacts(files, evidence, token_ids, tools, reasoning, own)


def check_model(facts: ModelFacts) -> Iterator[Finding]:
    """Report what suits the model, and problems in its files."""
    yield from _check_template(facts)
    yield _describe("tool calls", TOOL_CALL_FLAG, facts.tools, facts)
    yield _describe("reasoning", REASONING_FLAG, facts.reasoning, facts)
    if facts.tools.format is not None:
        yield from _check_markers(facts, facts.tools.format)
    yield from _check_end(facts)
    length = facts.files.context_length
    yield (
        Finding("ok", "context", f"{length:,} tokens")
        if length
        else Finding("note", "context", "config.json does not give the length")
    )


def suggest_flags(facts: ModelFacts) -> str:
    """Return the worker flags for this model; "" if it needs none."""
    names = facts.names
    found = ((TOOL_CALL_FLAG, names.tool_call), (REASONING_FLAG, names.reasoning))
    return " ".join(f"{flag} {name}" for flag, name in found if name is not None)


def _check_template(facts: ModelFacts) -> Iterator[Finding]:
    if facts.evidence.template:
        return
    has_tekken = (facts.files.folder / "tekken.json").is_file()
    yield Finding(
        "note" if has_tekken else "error",
        "chat template",
        "the model has no chat template"
        + (
            ", but Mistral's own tokenizer renders the prompts"
            if has_tekken
            else ": chat requests are rejected"
        ),
        "" if has_tekken else "name a Jinja file with --chat-template",
    )


def _describe(topic: str, flag: str, detection: Detection, facts: ModelFacts) -> Finding:
    if detection.format is None and facts.is_native(flag):
        text = f"{DESCRIBED}, by transformers' own parser in the pool: {detection.reason}"
        return Finding("ok", topic, text, f"{flag} {DESCRIBED}")
    if detection.format is not None:
        return Finding(
            "ok",
            topic,
            f"{detection.format.name} {detection.reason}",
            f"{flag} {detection.format.name}",
        )
    if not detection.candidates:
        return Finding("note", topic, detection.reason, f"leave {flag} out")
    listed = "; ".join(f"{one.name} {one.reason}" for one in detection.candidates)
    return Finding(
        "warning",
        topic,
        f"{detection.reason}. Candidates: {listed}",
        f"set {flag} to the parser of the model's family, or leave it out",
    )


def _check_markers(facts: ModelFacts, format_: Format) -> Iterator[Finding]:
    """Report which markers are tokens, which cannot be confused with text."""
    markers = {
        marker.strip() for by_marker in format_.states.values() for marker in by_marker
    } & set(facts.evidence.tokens)
    if not facts.evidence.tokens:
        yield Finding("note", "markers", "no file lists the added tokens")
    elif markers:
        yield Finding("ok", "markers", f"as tokens: {', '.join(sorted(markers))}")
    else:
        yield Finding(
            "note",
            "markers",
            f"no marker of {format_.name} is a token of the vocabulary; they are found as text",
        )


def _check_end(facts: ModelFacts) -> Iterator[Finding]:
    """Check that the token that ends an answer in the template also ends generation."""
    ends = {
        token
        for turn in facts.evidence.turns
        for token in facts.token_ids
        if turn.rstrip().endswith(token)
    }
    known = {*facts.files.eos_token_ids, *facts.files.further_eos_token_ids}
    if not ends or not known:
        return
    end = max(ends, key=len)
    if facts.token_ids[end] in known:
        yield Finding("ok", "end of answers", f"{end} ends generation")
    elif facts.tools.format is None or not any(
        end in by_marker for by_marker in facts.tools.format.states.values()
    ):
        yield Finding(
            "warning",
            "end of answers",
            f"the chat template ends an answer with {end} (token {facts.token_ids[end]}), but "
            f"generation ends at {', '.join(map(str, sorted(known)))}: answers may run on",
            "add the token to eos_token_id in generation_config.json",
        )


def names_for_stock(facts: ModelFacts) -> Iterator[Finding]:
    """Report the names for Dynamo's own frontend, which parses calls and reasoning itself."""
    flags = [
        f"{stock_flag} {name}"
        for stock_flag, flag, detection in (
            ("--dyn-tool-call-parser", TOOL_CALL_FLAG, facts.tools),
            ("--dyn-reasoning-parser", REASONING_FLAG, facts.reasoning),
        )
        if detection.format is not None and (name := name_in_rust(flag, detection.format))
    ]
    if flags:
        yield Finding("note", "stock frontends", f"Dynamo's Rust frontend needs {' '.join(flags)}")
