"""The results of rows, as the API and the output have them."""

from __future__ import annotations

from typing import Literal

import msgspec

from ..postprocess.messages import TokenLogprob

# Kinds of failure of a row; `generation` is a failure of the back end in this row only.
RowErrorKind = Literal[
    "request",
    "template",
    "prompt_too_long",
    "image",
    "duplicate_id",
    "no_recording",
    "plugin",
    "generation",
]


class ToolCall(msgspec.Struct, frozen=True):
    """A call in a parsed message. arguments: JSON text."""

    id: str
    name: str
    arguments: str


class ParsedMessage(msgspec.Struct, frozen=True):
    """An answer as a server would send it. finish_reason: OpenAI's, including "tool_calls"."""

    reasoning: str | None
    content: str | None
    tool_calls: list[ToolCall]
    finish_reason: str


class GeneratedChoice(msgspec.Struct, frozen=True, kw_only=True):
    """One answer.

    text: clean: without special tokens, cut at the stop string.
    raw_text: all of `token_ids`, with special tokens and before the cut.
    token_ids: up to and including the token that ended the answer.
    stop_reason: the stop string or stop token that ended it, or the name of a plugin; None for
        the model's end-of-sequence token and for a limit.
    logprobs: one entry per token, in OpenAI's form.
    """

    index: int
    text: str
    raw_text: str
    token_ids: list[int]
    finish_reason: Literal["stop", "length"]
    stop_reason: str | int | None = None
    logprobs: list[TokenLogprob] | None = None
    message: ParsedMessage | None = None


class RowError(msgspec.Struct, frozen=True):
    """Why a row has no answer. message: what happened, the value, and what to change."""

    kind: RowErrorKind
    message: str


class GenerationResult(msgspec.Struct, frozen=True, kw_only=True):
    """The answers to one request, or its error.

    index: position of the request in the batch. backend: the one that generated the answers.
    prompt_tokens: 0 if the prompt could not be built.
    embeddings: instead of choices, one for each input.
    The properties are those of the first choice.
    """

    id: str
    index: int
    backend: str
    prompt_tokens: int = 0
    choices: list[GeneratedChoice] = []
    embeddings: list[list[float]] = []
    error: RowError | None = None

    @property
    def text(self) -> str:
        """Clean text; "" for a row that failed."""
        return self.choices[0].text if self.choices else ""

    @property
    def raw_text(self) -> str:
        """Text with special tokens, before the cut; "" for a row that failed."""
        return self.choices[0].raw_text if self.choices else ""

    @property
    def token_ids(self) -> list[int]:
        """Generated tokens; [] for a row that failed."""
        return self.choices[0].token_ids if self.choices else []

    @property
    def finish_reason(self) -> Literal["stop", "length", "error"]:
        """Why generation ended."""
        return self.choices[0].finish_reason if self.choices else "error"

    @property
    def stop_reason(self) -> str | int | None:
        """The string or token that ended it, as in `GeneratedChoice`."""
        return self.choices[0].stop_reason if self.choices else None

    @property
    def logprobs(self) -> list[TokenLogprob] | None:
        """Logprobs of the tokens, if asked for."""
        return self.choices[0].logprobs if self.choices else None

    @property
    def message(self) -> ParsedMessage | None:
        """The parsed message, if asked for."""
        return self.choices[0].message if self.choices else None

    @property
    def completion_tokens(self) -> int:
        """Generated tokens of all choices."""
        return sum(len(choice.token_ids) for choice in self.choices)
