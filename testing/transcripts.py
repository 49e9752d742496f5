"""The transcripts: recorded requests with outputs, found by prompt."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from ..base.errors import BackedgeError, SetupError
from ..base.json_types import JsonObject
from ..recording.parser_case import Expected
from ..templates.chat_template import ModelPrompts

# `examples/` in a checkout, `backedge/examples/` in an installed wheel (see pyproject.toml).
EXAMPLES = Path(__file__).parents[1] / "examples"
# How many known questions the error for an unknown prompt names, and how much of each.
SHOWN_QUESTIONS = 5
SHOWN_CHARACTERS = 60
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
        """The last user message, shortened; the id if there is no such message."""
        questions = [
            str(message.get("content")) for message in self.messages if message["role"] == "user"
        ]
        text = questions[-1] if questions else self.id
        return text if len(text) <= SHOWN_CHARACTERS else text[: SHOWN_CHARACTERS - 1] + "\u2026"

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


class Recordings:
    """Finds transcripts by their prompts, rendered as the frontend renders them.

    by_end: a transcript also answers prompts that differ before the content of its last
        message, because clients and agents have their own system prompts, tools and earlier
        turns. The longest end wins.
    Raises `SetupError` if two transcripts with different outputs share a prompt or an end.
    """

    def __init__(
        self, files: ModelPrompts, transcripts: Iterable[Transcript], *, by_end: bool = False
    ) -> None:
        self._files = files
        self._known: dict[tuple[int, ...], Transcript] = {}
        self._by_end: dict[str, Transcript] = {}
        for transcript in transcripts:
            text = files.template.render(
                transcript.messages, transcript.tools, **transcript.chat_template_kwargs
            )
            self._check(self._known.setdefault(tuple(files.encode(text)), transcript), transcript)
            if by_end:
                end = cut_to_last_message(text, transcript.messages)
                self._check(self._by_end.setdefault(end, transcript), transcript)

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
        raise UnknownPromptError(self._describe_known())

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
        text: str = self._files.tokenizer.decode(list(token_ids), skip_special_tokens=False)
        return text

    def _output(self, transcript: Transcript, in_json: bool) -> list[int]:
        guided = in_json and transcript.expect.tool_calls and transcript.tool_choice
        return self._files.encode(transcript.output_in_json if guided else transcript.output)

    def _describe_known(self) -> str:
        # Prefer questions that need neither tools nor template variables.
        askable = sorted(
            self._known.values(), key=lambda known: bool(known.tools or known.chat_template_kwargs)
        )
        questions = list(dict.fromkeys(transcript.question for transcript in askable))
        shown = ", ".join(f'"{question}"' for question in questions[:SHOWN_QUESTIONS])
        return (
            f"There is no model here: it only replays {len(self._known)} transcripts, none "
            f"of which has this prompt. Ask, for example: {shown}; tools and chat_template_kwargs "
            "must match the transcript's as well."
        )


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
