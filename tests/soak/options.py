"""Requests with mixed options: stop strings, choices, logprobs, whole, streamed, completions."""

from __future__ import annotations

import itertools
import operator
import random
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import openai

from tests.postprocess.test_transcripts import prompt
from tests.support import TRANSCRIPTS, Transcript, encode

# Answers of text alone, which Dynamo's own parsers leave as it is.
TEXTS = tuple(TRANSCRIPTS[name] for name in ("plain_text", "multilingual_text", "count"))
# Dynamo wants a temperature above 0 for several choices.
COLD = 0.001


@dataclass(frozen=True)
class Options:
    """One request. stop: None for no stop string."""

    transcript: Transcript
    completion: bool
    stream: bool
    n: int
    logprobs: bool
    stop: str | None

    @property
    def summary(self) -> str:
        """All but the transcript's text."""
        path = "completions" if self.completion else "chat"
        options = f"stream={self.stream} n={self.n} logprobs={self.logprobs} stop={self.stop!r}"
        return f"{self.transcript['id']}, {path} {options}"

    @property
    def text(self) -> str:
        """The text of each choice."""
        content: str = self.transcript["expect"]["content"]
        return content if self.stop is None else content.partition(self.stop)[0]

    @property
    def may_be_held(self) -> bool:
        """Whether a frontend holds text back at some time: a stop string, or half a character."""
        return self.stop is not None or not self.text.isascii()

    def request(self, model: str) -> dict[str, Any]:
        """Return the request's fields."""
        kwargs = self.transcript["chat_template_kwargs"]
        fields: dict[str, Any] = {
            "model": model,
            "n": self.n,
            "temperature": COLD,
            "stream": self.stream,
            "stop": self.stop,
        }
        if self.stream:
            fields["stream_options"] = {"include_usage": True}
        if self.completion:
            return fields | {
                "prompt": prompt(self.transcript),
                "max_tokens": 2 * len(encode(self.transcript["output"])),
                **({"logprobs": 0} if self.logprobs else {}),
            }
        return fields | {
            "messages": self.transcript["messages"],
            "extra_body": {"chat_template_kwargs": kwargs},
            **({"logprobs": True} if self.logprobs else {}),
        }


def choose_options(choose: random.Random) -> Options:
    """Return a request at random."""
    transcript = choose.choice(TEXTS)
    content: str = transcript["expect"]["content"]
    at = choose.randrange(len(content) // 2, len(content) - 4)
    return Options(
        transcript,
        completion=choose.random() < 0.3,
        stream=choose.random() < 0.5,
        n=choose.choice((1, 1, 1, 2)),
        logprobs=choose.random() < 0.5,
        stop=content[at : at + 4] if choose.random() < 0.4 else None,
    )


@dataclass
class Gathered:
    """An answer, by choice. entries: of logprobs."""

    content: dict[int, str] = field(default_factory=dict)
    finishes: dict[int, list[str]] = field(default_factory=dict)
    entries: int = 0
    tokens: int | None = None

    def add(self, part: Any) -> None:
        """Add a chunk, or a whole response."""
        for choice in part.choices:
            said = getattr(choice, "message", None) or getattr(choice, "delta", None)
            text = choice.text if said is None else said.content
            self.content[choice.index] = self.content.get(choice.index, "") + (text or "")
            if choice.finish_reason:
                self.finishes.setdefault(choice.index, []).append(choice.finish_reason)
            if choice.logprobs is not None:
                named = choice.logprobs.tokens if said is None else choice.logprobs.content
                self.entries += len(named or ())
        if part.usage is not None:
            self.tokens = part.usage.completion_tokens


async def gather(client: openai.AsyncOpenAI, model: str, options: Options) -> Gathered:
    """Send the request; return its answer. Raises the client's errors."""
    create: Any = (client.completions if options.completion else client.chat.completions).create
    found, response = Gathered(), await create(**options.request(model))
    if not options.stream:
        found.add(response)
        return found
    parts: AsyncIterator[Any] = response
    async for part in parts:
        found.add(part)
    return found


def compare(text: str, wanted: str) -> str:
    """Return what a text has after the characters that are as wanted."""
    same = sum(1 for _ in itertools.takewhile(operator.truth, map(operator.eq, text, wanted)))
    return f"{text[same:]!r} instead of {wanted[same:]!r} after {same} characters"


def find_fault(options: Options, found: Gathered) -> str:
    """Return what is wrong with the answer; "" if nothing is."""
    expected = dict.fromkeys(range(options.n), options.text)
    if found.content != expected:
        texts = [(found.content.get(index, ""), text) for index, text in expected.items()]
        return "; ".join(map(compare, *zip(*texts, strict=True)))
    if found.finishes != {index: ["stop"] for index in expected}:
        return f"finishes {found.finishes}"
    if options.logprobs and options.stop is None and found.entries != found.tokens:
        return f"{found.entries} logprobs of {found.tokens} tokens"
    return ""
