"""What every parser is, and what it may know of the request."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import msgspec

from .events import Event


class ParserNames(msgspec.Struct, frozen=True):
    """The names of a model's parsers, as its flags or its card give them; None for no parser."""

    tool_call: str | None = None
    reasoning: str | None = None

    @property
    def label(self) -> str:
        """Both names as one word, for log lines and metrics: "qwen3+hermes", or "none"."""
        return "+".join(name for name in (self.reasoning, self.tool_call) if name) or "none"


class ParserRequest(msgspec.Struct, frozen=True, omit_defaults=True):
    """The part of a chat request that decides how its output is parsed.

    tools: OpenAI tool definitions.
    tool_choice: "none", "auto", "required" or {"type": "function", "function": {"name": ...}}.
    json_calls: guided decoding makes the model write the forced calls as plain JSON
        (a named call's arguments, or an array of {"name", "parameters"}, which it may be
        for a named call, too), whatever the model's own syntax is.
    history_tool_calls: calls in the conversation so far; some formats number their ids on.
    """

    tools: list[dict[str, Any]] = []
    tool_choice: str | dict[str, Any] = "none"
    parallel_tool_calls: bool = True
    json_calls: bool = False
    chat_template_kwargs: dict[str, Any] = {}
    include_reasoning: bool = True
    history_tool_calls: int = 0

    @property
    def parses_tools(self) -> bool:
        """Whether calls may occur: there are tools and the client did not forbid them."""
        return bool(self.tools) and self.tool_choice != "none"

    @property
    def forced_name(self) -> str | None:
        """The function that a named tool_choice demands, or None."""
        return self.tool_choice["function"]["name"] if isinstance(self.tool_choice, dict) else None


class StreamParser(Protocol):
    """Turns the output of one choice into events. One object per choice, fed in order.

    token_aligned: feed one token at a time, each with its own text. Parsers of the
        engines read text and token ids side by side, and most of them lose data
        when a step holds several tokens (vllm-project/vllm 31501, 41967).
    in_reasoning: text fed next counts as reasoning, as far as the parser knows.
    reasoning_tokens: tokens of reasoning so far, without its markers.
    """

    @property
    def token_aligned(self) -> bool:
        """See above."""
        ...

    @property
    def in_reasoning(self) -> bool:
        """See above."""
        ...

    @property
    def reasoning_tokens(self) -> int:
        """See above."""
        ...

    def reads_together(self, token_ids: Sequence[int]) -> bool:
        """Whether these tokens may come in one `feed`, with the text of all: there is no marker among them."""
        ...

    def feed(self, text: str, token_ids: Sequence[int] = ()) -> list[Event]:
        """Return the events that `text` completes.

        token_ids: the tokens that `text` was decoded from; may be empty, and
        `text` may be empty (a token that ends in half a character).
        """
        ...

    def finish(
        self, text: str = "", token_ids: Sequence[int] = (), *, cut: bool = False
    ) -> list[Event]:
        """Feed the last piece and return everything still held back.

        cut: generation ended by a limit, so an open call stays open.
        """
        ...


class ParserFactory(Protocol):
    """Makes one parser per choice; built once per model.

    name: the parsers' names, for log lines and counters.
    """

    @property
    def name(self) -> str:
        """See above."""
        ...

    def shows_special_tokens(self, request: ParserRequest) -> bool:
        """Whether the parsers for `request` have to see the text of special tokens."""
        ...

    def __call__(self, request: ParserRequest, prompt_token_ids: Sequence[int]) -> StreamParser:
        """Return a new parser for one choice of `request`."""
        ...
