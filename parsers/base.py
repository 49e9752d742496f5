"""The interfaces of all parsers, and the part of a request that they see."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol

import msgspec
from typing_extensions import override

from ..base.json_types import JsonObject
from .events import Event
from .held_back import HeldText

MalformedCalls = Literal["open", "repair"]
"""What a parser makes of malformed calls; docs/malformed-calls.md."""
WorkerMalformedCalls = Literal[MalformedCalls, "regenerate"]
"""What a worker makes of them."""


class ParserNames(msgspec.Struct, frozen=True):
    """The names of a model's parsers, as in its flags or its card; None for no parser."""

    tool_call: str | None = None
    reasoning: str | None = None

    @property
    def label(self) -> str:
        """Both names as one word, for log lines and metrics: "qwen3+hermes", or "none"."""
        names = (name for name in (self.reasoning, self.tool_call) if name)
        # A description is part of its name.
        return "+".join(name.partition(":")[0] for name in names) or "none"


def forces_call(tool_choice: object) -> bool:
    """Whether `tool_choice`, in any form or None, demands a call."""
    return tool_choice not in (None, "none", "auto")


class ParserRequest(msgspec.Struct, frozen=True, omit_defaults=True):
    """The parts of a chat request that parsers need.

    tools: OpenAI tool definitions.
    tool_choice: "none", "auto", "required" or {"type": "function", "function": {"name": ...}}.
    json_calls: guided decoding makes the model write forced calls as plain JSON instead of its
        own syntax: an array of {"name", "parameters"}, or only a named call's arguments.
    history_tool_calls: number of calls in the conversation so far, which the ids of some
        formats continue.
    malformed_calls: the worker's setting. once: this request's are not generated again.
    streams_arguments: a call leaves while it is written, although it may be generated again.
    """

    tools: list[JsonObject] = []
    tool_choice: str | JsonObject = "none"
    parallel_tool_calls: bool = True
    json_calls: bool = False
    chat_template_kwargs: JsonObject = {}
    include_reasoning: bool = True
    history_tool_calls: int = 0
    malformed_calls: WorkerMalformedCalls = "open"
    once: bool = False
    streams_arguments: bool = False

    @property
    def parses_tools(self) -> bool:
        """Whether calls may occur: there are tools, and the client did not forbid calls."""
        return bool(self.tools) and self.tool_choice != "none"

    @property
    def drops_calls(self) -> bool:
        """Whether the client forbids calls; one that the model makes anyway is dropped."""
        return bool(self.tools) and self.tool_choice == "none"

    @property
    def guesses(self) -> bool:
        """Whether malformed calls are repaired by guesses."""
        return self.malformed_calls == "repair"

    @property
    def regenerates(self) -> bool:
        """Whether malformed calls are generated again."""
        return self.malformed_calls == "regenerate" and self.parses_own_syntax

    @property
    def parses_own_syntax(self) -> bool:
        """Whether calls may occur in the model's own syntax, not as forced plain JSON."""
        return self.parses_tools and not self.json_calls

    @property
    def reads_forced_json(self) -> bool:
        """Whether the answer is read as forced calls in plain JSON."""
        return self.json_calls and self.parses_tools

    @property
    def forced_name(self) -> str | None:
        """The function that a named tool_choice demands; None without a named choice."""
        return self.tool_choice["function"]["name"] if isinstance(self.tool_choice, dict) else None


class StreamParser(Protocol):
    """Converts the output of one choice to events. One object per choice, fed in order."""

    @property
    def token_aligned(self) -> bool:
        """Whether each token must be fed separately, with its own text.

        The engines' parsers read text and token ids together, and most of them lose data if a
        step contains several tokens (vllm-project/vllm 31501, 41967).
        """

    @property
    def in_reasoning(self) -> bool:
        """Whether the next text is reasoning, as far as the parser knows."""

    @property
    def reasoning_tokens(self) -> int:
        """Number of reasoning tokens fed, without markers."""

    @property
    def dropped_calls(self) -> int:
        """Number of calls that are in no event: the request does not declare their functions."""
        return 0

    @property
    def continues_reasoning(self) -> bool:
        """Whether the next token belongs to reasoning, not to a header that may lead to it."""
        return self.in_reasoning and self.state_name != "HEADER"

    @property
    def state_name(self) -> str:
        """The state of the next text, for display; a linear parser's is from its table."""
        return "reasoning" if self.in_reasoning else "answer"

    @property
    def held(self) -> Sequence[HeldText] | None:
        """The text held back, for display; None if the parser cannot tell."""
        return None

    @property
    def slips(self) -> int:
        """Number of calls with a slip in their frame that were read, or surely were meant."""
        return 0

    @property
    def rejected_calls(self) -> int:
        """Number of times that a token opened a call that cannot be read: it is text."""
        return 0

    @property
    def outside_calls(self) -> bool:
        """Whether no call has begun, as far as the parser knows: all output so far stays."""
        return not self.held

    def reads_together(self, token_ids: Sequence[int]) -> bool:
        """Whether these tokens may be fed together although the parser is token-aligned."""

    def feed(self, text: str, token_ids: Sequence[int] = ()) -> list[Event]:
        """Return the events that `text` completes.

        text: empty if a token ends within a character.
        token_ids: the tokens that `text` was decoded from; may be empty.
        """

    def finish(
        self, text: str = "", token_ids: Sequence[int] = (), *, cut: bool = False
    ) -> list[Event]:
        """Feed the last piece; return its events and those of all held-back text.

        cut: a limit ended generation, so an open call stays open.
        """


class ParserWrapper(StreamParser):
    """Wraps `inner`, and delegates everything except `feed` and `finish`."""

    def __init__(self, inner: StreamParser) -> None:
        self._inner = inner

    @property
    @override
    def token_aligned(self) -> bool:
        return self._inner.token_aligned

    @property
    @override
    def in_reasoning(self) -> bool:
        return self._inner.in_reasoning

    @property
    @override
    def reasoning_tokens(self) -> int:
        return self._inner.reasoning_tokens

    @property
    @override
    def dropped_calls(self) -> int:
        return self._inner.dropped_calls

    @property
    @override
    def state_name(self) -> str:
        return self._inner.state_name

    @property
    @override
    def held(self) -> Sequence[HeldText] | None:
        return self._inner.held

    @property
    @override
    def slips(self) -> int:
        return self._inner.slips

    @property
    @override
    def rejected_calls(self) -> int:
        return self._inner.rejected_calls

    @property
    @override
    def outside_calls(self) -> bool:
        return self._inner.outside_calls

    @override
    def reads_together(self, token_ids: Sequence[int]) -> bool:
        return self._inner.reads_together(token_ids)


class ParserFactory(Protocol):
    """Builds one parser per choice; one factory per model.

    name: the names of its parsers, for log lines and metrics.
    breaks_before_calls: `Format.breaks_before_calls`; None if it is not known.
    """

    name: str
    breaks_before_calls: int | None = None

    def shows_special_tokens(self, request: ParserRequest) -> bool:
        """Whether the parsers for `request` must see the text of special tokens."""

    def __call__(self, request: ParserRequest, prompt_token_ids: Sequence[int]) -> StreamParser:
        """Build a parser for one choice of `request`.

        Forced calls in plain JSON (`ParserRequest.json_calls`) remain content; the caller wraps
        the parser with `forced_calls.wrap_forced_calls`, whatever the factory.
        """
