"""Requests and answers of the benchmarks: example transcripts, stretched to a wanted length."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import msgspec
from backedge.base.json_types import JsonObject
from backedge.recording.parser_case import Expected
from backedge.testing.transcripts import Transcript, read_transcripts
from tokenizers import Tokenizer

ROOT = Path(__file__).parent.parent
TINY_MODEL = ROOT / "examples" / "tiny_model"
TRANSCRIPTS = ROOT / "examples" / "transcripts"
# kind -> id of its transcript
KINDS = {"content": "count", "reasoning": "long_reasoning", "tools": "long_argument"}


class Texts(msgspec.Struct, frozen=True):
    """The texts of an answer, by kind; the arguments of all calls are joined."""

    content: str = ""
    reasoning: str = ""
    arguments: str = ""


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """One question and the model's output.

    request: the OpenAI request, without model, stream and stream options.
    question: the last message, which identifies the request to the worker.
    token_ids: the output with its end-of-sequence token.
    """

    kind: str
    request: JsonObject
    question: str
    token_ids: list[int]
    texts: Texts


def tokenizer() -> Tokenizer:
    """Return the example model's tokenizer."""
    return Tokenizer.from_file(str(TINY_MODEL / "tokenizer.json"))


def answer(kind: str, tokens: int = 0) -> Answer:
    """Return the answer of one of `KINDS`, stretched to about `tokens` tokens.

    tokens: 0, or fewer than the transcript has, for the transcript as it is.
    The text between the markers is repeated, so the markers stay where they are and a
    call's arguments stay JSON.
    """
    encoder = tokenizer()
    transcript = transcripts()[KINDS[kind]]
    shape = encoder.encode(transcript.output, add_special_tokens=False)
    part = _stretchable(kind, transcript.expect)
    unit = len(encoder.encode(part, add_special_tokens=False).ids)
    times = 1 + max(0, tokens - len(shape.ids)) // unit
    output = _stretched(transcript.output, part, times)
    request = {"messages": transcript.messages}
    optional = {"tools": transcript.tools, "chat_template_kwargs": transcript.chat_template_kwargs}
    expect = transcript.expect
    return Answer(
        kind=kind,
        request={
            **request,
            **{name: value for name, value in optional.items() if value},
        },
        question=transcript.question,
        token_ids=encoder.encode(output, add_special_tokens=False).ids,
        texts=Texts(
            content=_stretched(expect.content or "", part, times),
            reasoning=_stretched(expect.reasoning or "", part, times),
            arguments="".join(
                _stretched(call.arguments, part, times) for call in expect.tool_calls
            ),
        ),
    )


@cache
def transcripts() -> dict[str, Transcript]:
    """Return the example transcripts by their ids."""
    return {transcript.id: transcript for transcript in read_transcripts(TRANSCRIPTS)}


class Answers:
    """The answers to known questions.

    tokens: of each answer, about. always: the kind of the answer to every request; None to
    look for a known question in the prompt.
    """

    def __init__(self, tokens: int, always: str | None = None) -> None:
        self._tokenizer = tokenizer()
        self._always = None if always is None else answer(always, tokens).token_ids
        answers = [answer(kind, tokens) for kind in KINDS]
        self._answers = {known.question: known.token_ids for known in answers}

    @property
    def longest(self) -> int:
        """The number of tokens of the longest answer."""
        return max(map(len, self._answers.values()))

    def find(self, request: JsonObject) -> list[int]:
        """Return the answer's tokens. Raises LookupError for an unknown question."""
        if self._always is not None:
            return self._always
        prompt = self._tokenizer.decode(request["token_ids"])
        for question, token_ids in self._answers.items():
            if question in prompt:
                return token_ids
        raise LookupError(
            f"no transcript asks this: {prompt[-200:]!r}; known: {list(self._answers)}"
        )


def _stretchable(kind: str, expect: Expected) -> str:
    """Return the part of the output that can be repeated without changing the syntax."""
    if kind == "content":
        return expect.content or ""
    if kind == "reasoning":
        return expect.reasoning or ""
    values = json.loads(expect.tool_calls[0].arguments).values()
    longest = max((value for value in values if isinstance(value, str)), key=len)
    return json.dumps(longest, ensure_ascii=False)[1:-1]


def _stretched(text: str, part: str, times: int) -> str:
    return text.replace(part, part * times)
