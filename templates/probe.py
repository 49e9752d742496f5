"""Reads the evidence for `parsers/detection.py` from a model's files.

The chat template renders a conversation with one tool call; its text for the assistant's turn shows
how the model writes calls. The ends of prompts show whether the template opens reasoning.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import msgspec

from ..base.errors import SetupError
from ..base.json_types import JsonObject
from ..parsers.detection import PROBE_ARGUMENTS, PROBE_NAME, PROBE_TOOL, Evidence
from ..tokenization.model_files import ModelFolder
from .chat_template import (
    DEFAULT,
    FOR_TOOLS,
    compile_template,
    create_environment,
    find_variables,
    format_tools,
    reads_content_parts,
    render_with_time_limit,
)
from .model_prompts import read_templates

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
    try:
        sources = read_templates(files, chat_template)
    except SetupError:
        if chat_template is not None:
            raise
        return Evidence(tokens=frozenset(tokens))
    source = sources.get(FOR_TOOLS) or sources.get(DEFAULT) or next(iter(sources.values()))
    return probe_template(source, files.special_tokens, frozenset(tokens))


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
    probe = _Probe(source, special_tokens)
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
    return Evidence(source, probe.variables, turns, tuple(ends), switches, tokens)


class _Probe:
    """Renders short conversations with one template."""

    def __init__(self, source: str, special_tokens: Mapping[str, str]) -> None:
        self._template = compile_template(source)
        self._as_parts = reads_content_parts(create_environment().parse(source))
        self._special_tokens = dict(special_tokens)
        self.variables = find_variables(source)

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
        question = {"role": "user", "content": parts if self._as_parts else QUESTION}
        variables = {
            **self._special_tokens,
            **(setting or {}),
            "messages": [question, *answer],
            "tools": format_tools([PROBE_TOOL], "vllm"),
            "add_generation_prompt": add_generation_prompt,
        }
        try:
            return render_with_time_limit(lambda: self._template.render(variables))
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
