"""`--tool-call-parser auto` and `--reasoning-parser auto`: detect parsers from a model's files.

Unless exactly one format fits, the worker does not start, and the error lists the candidates.

`read_evidence` reads what `parsers/detection.py` judges. The chat template renders a conversation
with one tool call; its text for the assistant's turn shows how the model writes calls. The ends of
prompts show whether the template opens reasoning.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import msgspec

from ..base.errors import REASONING_FLAG, TOOL_CALL_FLAG, SetupError
from ..base.json_types import JsonObject
from ..base.log import get_logger
from ..parsers.base import ParserNames
from ..parsers.detection import (
    PROBE_ARGUMENTS,
    PROBE_NAME,
    PROBE_TOOL,
    Detection,
    Evidence,
    detect_reasoning,
    detect_tool_calls,
)
from ..parsers.format import Format
from ..parsers.parser_lookup import Kind, find_formats, tool_format
from ..parsers.response_template import (
    DESCRIBED,
    PREFIX,
    describes,
    find_table,
    name_description,
    name_native,
    read_fields,
)
from ..tokenization.model_files import ModelFolder, find_folder
from .chat_template import (
    DEFAULT,
    FOR_TOOLS,
    format_tools,
    read_templates,
)
from .environment import LoadedTemplate
from .rendering import ProcessTemplate

logger = get_logger(__name__)

AUTO = "auto"


class NoParserError(SetupError):
    """No parser, or more than one, fits a model for `auto`."""

    def __init__(self, flag: str, model: str, detection: Detection) -> None:
        self.detection = detection
        listed = "; ".join(f"{one.name}: {one.reason}" for one in detection.candidates)
        remedy = f"set {flag} to one of them ({listed})" if listed else f"set {flag} to a name"
        super().__init__(
            f"{flag} auto finds no parser for {model!r}: {detection.reason}. Please {remedy}, or "
            "leave the flag out. `backedge doctor` shows more."
        )


def resolve_auto(
    names: ParserNames,
    model: str,
    *,
    revision: str | None = None,
    chat_template: str | None = None,
    known: Callable[[str], Collection[str]] = lambda _: (),
    kind: Kind = "auto",
    required: bool = True,
) -> ParserNames:
    """Replace "auto" and "template" in `names` by the model's parsers; log the reasons.

    "template" stands for the checkpoint's own description, `response_template`; "auto" also for
    that if no known format fits.

    model: a folder, or a name on the hub, from which the small files are downloaded.
    chat_template: path of a Jinja file that the worker uses instead of the model's own.
    known: returns the names that the engine accepts for a flag; if one of a format's names is
        among them, it is used.
    kind: "native" for a description's values as transformers itself gives them.
    required: whether "auto" must find a parser; otherwise the log says why it found none.
    Raises `NoParserError` unless exactly one fits, and `SetupError` for a model that cannot be
    read.
    """
    if not asks_model(names):
        return names
    try:
        folder = find_folder(model, revision)
        names, own = _resolve_described(names, folder, kind), read_description(folder, kind)
        evidence = read_evidence(folder, chat_template) if asks_model(names) else Evidence()
    except SetupError as error:
        raise SetupError(f"{AUTO} and {DESCRIBED} need the model's files: {error}") from error

    def take(flag: str, detection: Detection) -> str | None:
        try:
            return _take(flag, model, detection, known(flag), own)
        except NoParserError as error:
            if required:
                raise
            logger.warning("%s Until then clients get what it would read as content.", error)
            return None

    tool_call, reasoning = names.tool_call, names.reasoning
    if tool_call == AUTO:
        tool_call = take(TOOL_CALL_FLAG, detect_tool_calls(evidence))
    if reasoning == AUTO:
        detection = detect_reasoning(evidence, _model_tools(tool_call, evidence))
        reasoning = take(REASONING_FLAG, detection)
    return _complete(ParserNames(tool_call, reasoning))


def resolve_for_server(
    names: ParserNames, model: str, *, revision: str | None = None, source: str | None = None
) -> ParserNames:
    """Return `resolve_auto` for an engine's own server, which has its chat template as text.

    source: of the template; None for the model's own.
    """
    with tempfile.NamedTemporaryFile("w", suffix=".jinja", encoding="utf-8") as file:
        file.write(source or "")
        file.flush()
        template = file.name if source else None
        return resolve_auto(names, model, revision=revision, chat_template=template)


def asks_model(names: ParserNames) -> bool:
    """Whether a name stands for the model's own parsers."""
    return not {AUTO, DESCRIBED}.isdisjoint((names.tool_call, names.reasoning))


def _resolve_described(names: ParserNames, folder: str | Path, kind: Kind) -> ParserNames:
    """Replace "template" in `names` by the description in a model's folder. Raises `SetupError`.

    kind: as for `resolve_auto`.
    """
    if DESCRIBED not in (names.tool_call, names.reasoning):
        return names
    own = read_description(folder, kind)
    return _complete(
        ParserNames(
            _describe(TOOL_CALL_FLAG, names.tool_call, own),
            _describe(REASONING_FLAG, names.reasoning, own),
        )
    )


def _complete(names: ParserNames) -> ParserNames:
    """Return `names` with the reasoning of a description of calls, which reads all of an answer."""
    own = names.tool_call
    if names.reasoning is None and own is not None and own.startswith(PREFIX):
        return ParserNames(own, own if describes(own, REASONING_FLAG) else None)
    return names


def read_description(folder: str | Path, kind: Kind = "auto") -> str | None:
    """Return the parsers' name of the `response_template` in a model's folder, if there is one.

    kind: as for `resolve_auto`.
    Raises `SetupError` for one that is too large.
    """
    files = ModelFolder(folder)
    found = files.read("tokenizer_config.json", dict[str, object]).get("response_template")
    if found is None:
        return None
    own = name_description(found)
    return name_native(own) if kind == "native" else own


def _describe(flag: str, name: str | None, own: str | None) -> str | None:
    """Return `name`, or `own` for "template". Raises `SetupError` if that does not fit the flag."""
    if name != DESCRIBED:
        return name
    if own is None:
        raise SetupError(f"{flag} {DESCRIBED}: tokenizer_config.json has no `response_template`.")
    read_fields(own)
    if not describes(own, flag):
        raise SetupError(f"{flag} {DESCRIBED}: the `response_template` describes nothing of it.")
    return own


def _model_tools(tool_call: str | None, evidence: Evidence) -> Format | None:
    """Return the format of the model's calls, even if the worker does not parse them."""
    return (tool_format(tool_call) if tool_call else None) or detect_tool_calls(evidence).format


def _take(
    flag: str, model: str, detection: Detection, known: Collection[str], own: str | None
) -> str:
    """Return the name of what was detected, else `own`, the model's description."""
    found = detect_described(detection, flag, own)
    if found.format is None and own is not None and describes(own, flag):
        logger.info("%s auto: %s, by transformers' own parser: %s", flag, DESCRIBED, found.reason)
        return own
    if found.format is None:
        raise NoParserError(flag, model, found)
    name = name_for_engine(found.format, known) if found is detection or own is None else own
    logger.info("%s auto: %s, because it %s", flag, name.partition(":")[0], found.reason)
    return name


def detect_described(detection: Detection, flag: str, own: str | None) -> Detection:
    """Return `detection`; if it found no format, that of `own`, the model's description."""
    if detection.format is not None or own is None:
        return detection
    try:
        found, table = find_formats(own), find_table(own)
        if isinstance(table, SetupError):
            raise table
    except SetupError as error:
        return replace(detection, reason=f"{detection.reason}; {error}")
    format_ = found.tools if flag == TOOL_CALL_FLAG else found.reasoning
    reason = f"is the model's `response_template` ({detection.reason})"
    return detection if format_ is None else Detection(format_, reason)


def name_for_engine(format_: Format, known: Collection[str]) -> str:
    """Return a format's name in an engine that accepts the names `known`, else our own."""
    names = (format_.name, *format_.aliases)
    return next((name for name in names if name in known), format_.name)


T = TypeVar("T", bound=msgspec.Struct)

# The end of the conversation before the assistant's turn.
QUESTION = "BACKEDGE-PROBE-QUESTION"
# Mistral's templates need nine letters or digits; Kimi's print the id instead of the name.
CALL_IDS = ("probe0001", f"functions.{PROBE_NAME}:0")
# Most templates need the arguments as an object, some as JSON text.
ARGUMENTS: tuple[JsonObject | str, ...] = (
    PROBE_ARGUMENTS,
    msgspec.json.encode(PROBE_ARGUMENTS).decode(),
)
# Variables that switch reasoning, in one template or another.
THINKING_FLAGS = ("enable_thinking", "thinking")
# The beginning of a marker that was cut off with the common part of two texts.
CUT_MARKER = re.compile(r"[<\[◁][^>\]▷]*\Z")


class AddedToken(msgspec.Struct, frozen=True):
    """A token outside the ordinary vocabulary."""

    content: str = ""
    id: int = -1


class TokenizerJson(msgspec.Struct, frozen=True):
    """The part of tokenizer.json that lists added tokens."""

    added_tokens: list[AddedToken] = []


class TokenizerConfig(msgspec.Struct, frozen=True):
    """The part of tokenizer_config.json that lists added tokens."""

    added_tokens_decoder: dict[int, AddedToken] = {}


class TekkenToken(msgspec.Struct, frozen=True):
    """A control token of Mistral's own tokenizers."""

    token_str: str = ""
    rank: int = -1


class TekkenJson(msgspec.Struct, frozen=True):
    """The part of tekken.json that lists control tokens."""

    special_tokens: list[TekkenToken] | None = None


def read_evidence(folder: str | Path, chat_template: str | None = None) -> Evidence:
    """Read the evidence in a model's folder.

    chat_template: path of a Jinja file to use instead of the model's own.
    Raises `SetupError` for an unusable file. Files may be missing.
    """
    files = ModelFolder(folder)
    tokens = read_added_tokens(Path(folder))
    is_described = read_description(folder) is not None
    try:
        sources = read_templates(files, chat_template)
    except SetupError:
        if chat_template is not None:
            raise
        return Evidence(tokens=frozenset(tokens), is_described=is_described)
    source = sources.get(FOR_TOOLS) or sources.get(DEFAULT) or next(iter(sources.values()))
    evidence = probe_template(source, files.special_tokens, frozenset(tokens))
    return replace(evidence, is_described=is_described)


def read_added_tokens(folder: Path) -> dict[str, int]:
    """Return text -> id of the added tokens, from the files that list any.

    Raises `SetupError` for a file with another structure.
    """
    try:
        listed = _decode(folder / "tokenizer.json", TokenizerJson).added_tokens
        decoder = _decode(folder / "tokenizer_config.json", TokenizerConfig).added_tokens_decoder
        control = _decode(folder / "tekken.json", TekkenJson).special_tokens or ()
    except msgspec.DecodeError as error:
        raise SetupError(f"{folder}: the tokenizer's files cannot be used: {error}.") from error
    return {
        **{token.token_str: token.rank for token in control if token.token_str},
        **{token.content: number for number, token in decoder.items()},
        **{token.content: token.id for token in listed},
    }


def _decode(path: Path, content: type[T]) -> T:
    return msgspec.json.decode(path.read_bytes() if path.is_file() else b"{}", type=content)


def probe_template(
    source: str, special_tokens: Mapping[str, str], tokens: frozenset[str] = frozenset()
) -> Evidence:
    """Return the evidence in a template's source and renderings.

    special_tokens: `bos_token` and others, which templates write themselves.
    tokens: the added tokens.
    Raises `SetupError` for a template that cannot be compiled.
    """
    with closing(ProcessTemplate(source)) as template:
        return probe_loaded(template, source, special_tokens, tokens)


def probe_loaded(
    template: ProcessTemplate | LoadedTemplate,
    source: str,
    special_tokens: Mapping[str, str],
    tokens: frozenset[str] = frozenset(),
) -> Evidence:
    """Return the evidence in a template that has been loaded, as `probe_template`."""
    probe = _Probe(template, special_tokens)
    plain = probe.render_prompt({})
    switches: dict[str, bool] = {}
    prompts = [plain]
    for flag in THINKING_FLAGS:
        on, off = (probe.render_prompt({flag: is_on}) for is_on in (True, False))
        if on != off:
            switches[flag] = on == plain
            prompts += [on, off]
    ends = [_cut_question(prompt) for prompt in prompts if prompt is not None]
    turns = tuple(dict.fromkeys(probe.render_turns(ends)))
    return Evidence(source, template.variables, turns, tuple(ends), switches, tokens)


class _Probe:
    """Renders short conversations with one template."""

    def __init__(
        self, template: ProcessTemplate | LoadedTemplate, special_tokens: Mapping[str, str]
    ) -> None:
        self._template = template
        self._special_tokens = dict(special_tokens)

    def render_prompt(self, setting: Mapping[str, bool]) -> str | None:
        """Render a prompt; None if the template raises."""
        return self._render([], setting, add_generation_prompt=True)

    def render_turns(self, prompts: Sequence[str]) -> Iterator[str]:
        """Yield the turns with the probe's call, without the prompt's part of them.

        prompts: their text after the question.
        """
        for call_id in CALL_IDS:
            for arguments in ARGUMENTS:
                turn = _cut_question(self._render([_calling(call_id, arguments)]) or "")
                if PROBE_NAME in turn:
                    yield min((_cut_prompt(prompt, turn) for prompt in prompts or ("",)), key=len)
                    break

    def _render(
        self,
        answer: list[JsonObject],
        setting: Mapping[str, bool] | None = None,
        *,
        add_generation_prompt: bool = False,
    ) -> str | None:
        parts = [{"type": "text", "text": QUESTION}]
        question = {"role": "user", "content": parts if self._template.reads_parts else QUESTION}
        variables = {
            **self._special_tokens,
            **(setting or {}),
            "messages": [question, *answer],
            "tools": format_tools([PROBE_TOOL], "vllm"),
            "add_generation_prompt": add_generation_prompt,
        }
        try:
            return self._template.render(variables)
        except Exception:  # noqa: BLE001 - a template is the model's code and may raise anything
            return None


def _cut_question(text: str) -> str:
    """Return the text after the question; "" if the question does not occur."""
    _, question, behind = text.rpartition(QUESTION)
    return behind if question else ""


def _calling(call_id: str, arguments: JsonObject | str) -> JsonObject:
    function = {"name": PROBE_NAME, "arguments": arguments}
    return {
        "role": "assistant",
        "content": "",
        "tool_calls": [{"id": call_id, "type": "function", "function": function}],
    }


def _cut_prompt(prompt: str, turn: str) -> str:
    """Return `turn` from its difference to `prompt` on, with whole markers only."""
    pairs = enumerate(zip(prompt, turn, strict=False))
    length = next((i for i, (a, b) in pairs if a != b), min(len(prompt), len(turn)))
    common = turn[:length]
    if length < len(prompt):
        common = CUT_MARKER.sub("", common)
    return turn[len(common) :]
