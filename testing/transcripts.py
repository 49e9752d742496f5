"""The transcripts: recorded requests with outputs, found by prompt."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Protocol

import msgspec

from ..base.errors import BackedgeError, RequestError, SetupError, shorten
from ..base.json_types import JsonObject
from ..base.log import get_logger
from ..recording.parser_case import Expected
from ..templates.chat_template import ModelPrompts
from ..templates.python_prompts import PythonPrompts

logger = get_logger(__name__)

# `examples/` in a checkout, `backedge/examples/` in an installed wheel (see pyproject.toml).
EXAMPLES = Path(__file__).parents[1] / "examples"
# How many known questions the error for an unknown prompt names, and how much of each.
SHOWN_QUESTIONS = 5
SHOWN_CHARACTERS = 60
# How much of an unknown prompt is compared with them.
MAX_COMPARED_TOKENS = 1_000
REASONING_END = "</think>"


class UnknownPromptError(BackedgeError):
    """No transcript has this prompt. The message names some that are known."""


class Transcript(msgspec.Struct):
    """One line of a file: a request and the model's output, end-of-sequence token included."""

    id: str
    messages: list[JsonObject]
    output: str
    expect: Expected = Expected()
    tools: list[JsonObject] | None = None
    tool_choice: str | JsonObject | None = None
    chat_template_kwargs: JsonObject = {}

    @property
    def question(self) -> str:
        """The last user message; the id if there is no such message."""
        questions = [
            str(message.get("content")) for message in self.messages if message["role"] == "user"
        ]
        return questions[-1] if questions else self.id

    def describe(self) -> str:
        """Return the question with what else a request must have, each shortened."""
        named = ", ".join(tool["function"]["name"] for tool in self.tools or ())
        variables = json.dumps(self.chat_template_kwargs)
        earlier = len(self.messages) - 1
        needs = [
            f"tools {shorten(named, SHOWN_CHARACTERS)}" if named else "",
            f"chat_template_kwargs {variables}" if self.chat_template_kwargs else "",
            f"{earlier} other messages" if earlier else "",
        ]
        text = shorten(self.question, SHOWN_CHARACTERS)
        return f'"{text}" ({"; ".join(filter(None, needs)) or "nothing else"})'

    @property
    def output_in_json(self) -> str:
        """The output of a model whose forced calls are constrained to plain JSON."""
        reasoning, marker, answer = self.output.rpartition(REASONING_END)
        end_of_sequence = answer[answer.rindex("<|") :] if "<|" in answer else ""
        calls = [
            f'{{"name": {json.dumps(call.name)}, "parameters": {call.arguments}}}'
            for call in self.expect.tool_calls
        ]
        is_named = isinstance(self.tool_choice, dict)
        text = self.expect.tool_calls[0].arguments if is_named else f"[{', '.join(calls)}]"
        return f"{reasoning}{marker}{text}{end_of_sequence}"


class DecodesText(Protocol):
    """The part of a tokenizer that is used here."""

    def decode(self, token_ids: list[int], /, *, skip_special_tokens: bool) -> str:
        """Return the text of `token_ids`."""


Prompts = ModelPrompts | PythonPrompts


class Recordings:
    """Finds transcripts by their prompts, rendered as the frontend renders them.

    Transcripts that the model's template rejects are left out, with a warning.

    by_end: a transcript also answers prompts that differ before the content of its last
        message, because clients and agents have their own system prompts, tools and earlier
        turns. The longest end wins.
    Raises `SetupError` if two transcripts with different outputs share a prompt or an end, and if
        the model accepts no transcript.
    """

    def __init__(
        self, files: Prompts, transcripts: Iterable[Transcript], *, by_end: bool = False
    ) -> None:
        self._files = files
        self._known: dict[tuple[int, ...], Transcript] = {}
        self._by_end: dict[str, Transcript] = {}
        rejected: list[str] = []
        for transcript in transcripts:
            try:
                prompt = files.prompt_token_ids(
                    transcript.messages, transcript.tools, **transcript.chat_template_kwargs
                )
            except RequestError as error:
                rejected.append(f"{transcript.id}: {error}")
                continue
            self._check(self._known.setdefault(tuple(prompt), transcript), transcript)
            if by_end:
                end = cut_to_last_message(self._decode(prompt), transcript.messages)
                self._check(self._by_end.setdefault(end, transcript), transcript)
        if rejected:
            count = f"{len(rejected)} of {len(rejected) + len(self._known)} transcripts"
            if not self._known:
                raise SetupError(f"the model rejects all {count}; the first is {rejected[0]}")
            logger.warning("the model rejects %s; the first is %s", count, rejected[0])

    @staticmethod
    def _check(same: Transcript, transcript: Transcript) -> None:
        if same.output != transcript.output:
            raise SetupError(
                f"transcripts {same.id!r} and {transcript.id!r} have the same prompt, or the same "
                "end of it; remove one."
            )

    def find(self, token_ids: Sequence[int], *, in_json: bool = False) -> list[int]:
        """Return the tokens that remain to be generated after `token_ids`.

        token_ids: a prompt, possibly followed by tokens that another worker generated before it
            died. in_json: guided decoding constrains forced calls to plain JSON.
        Raises `UnknownPromptError` if no transcript has the prompt.
        """
        if (whole := self._known.get(tuple(token_ids))) is not None:
            return self._output(whole, in_json)
        for prompt, transcript in self._known.items():
            sent = list(token_ids[len(prompt) :])
            output = self._output(transcript, in_json)
            if sent and tuple(token_ids[: len(prompt)]) == prompt and output[: len(sent)] == sent:
                return output[len(sent) :]
        if self._by_end and (rest := self._find_by_end(token_ids, in_json=in_json)) is not None:
            return rest
        raise UnknownPromptError(self._describe_nearest(token_ids))

    def _find_by_end(self, token_ids: Sequence[int], *, in_json: bool) -> list[int] | None:
        text = self._decode(token_ids)
        for end in sorted(self._by_end, key=len, reverse=True):
            _, found, sent = text.rpartition(end)
            if not found:
                continue
            output = self._output(self._by_end[end], in_json)
            for count in range(len(output) + 1 if sent else 1):
                if self._decode(output[:count]) == sent:
                    return output[count:]
        return None

    def _decode(self, token_ids: Sequence[int]) -> str:
        return self._files.tokenizer.decode(list(token_ids), skip_special_tokens=False)

    def _output(self, transcript: Transcript, in_json: bool) -> list[int]:
        guided = in_json and transcript.expect.tool_calls and transcript.tool_choice
        return self._files.encode(transcript.output_in_json if guided else transcript.output)

    def _describe_nearest(self, token_ids: Sequence[int]) -> str:
        asked = read_words(self._decode(token_ids[-MAX_COMPARED_TOKENS:]))

        def rank(known: Transcript) -> tuple[float, bool]:
            words = read_words(known.question)
            # Equally near: first those that need neither tools nor template variables.
            return -len(words & asked) / max(1, len(words)), bool(
                known.tools or known.chat_template_kwargs
            )

        nearest = dict.fromkeys(
            transcript.describe() for transcript in sorted(self._known.values(), key=rank)
        )
        return (
            f"There is no model here: it only replays {len(self._known)} transcripts, none "
            "of which has this prompt. Ask one of these in a chat, nearest first, with exactly "
            f"what is in parentheses: {', '.join(list(nearest)[:SHOWN_QUESTIONS])}."
        )


def read_words(text: str) -> set[str]:
    """Return the words of `text`, to compare questions."""
    return set(re.findall(r"\w+", text.lower()))


def cut_to_last_message(text: str, messages: Sequence[JsonObject]) -> str:
    """Return a prompt's text from its last message's content on; all of it without messages."""
    content = messages[-1].get("content") if messages else None
    start = text.rfind(content) if isinstance(content, str) and content else 0
    return text[max(start, 0) :]


def read_transcripts(folder: Path) -> list[Transcript]:
    """Read the transcripts in the .jsonl files of `folder`.

    Raises `SetupError` if the folder has no transcript, or for a line that is not one.
    """
    transcripts = []
    for path in sorted(folder.glob("*.jsonl")):
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            try:
                transcripts.append(msgspec.json.decode(line, type=Transcript))
            except msgspec.DecodeError as error:
                raise SetupError(f"{path}, line {number} is not a transcript: {error}.") from error
    if not transcripts:
        raise SetupError(f"--transcripts {folder}: found no .jsonl file with transcripts.")
    return transcripts
