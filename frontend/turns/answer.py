"""An answer as the client sees it: collected from its deltas, or read back from token ids."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence

import msgspec

from ...base.errors import ParserFailedError
from ...parsers.base import ParserFactory
from ...postprocess.delta_builder import aggregate_deltas
from ...postprocess.messages import ChoiceDelta, Chunk, Delta, PostprocessParams, ToolCallDelta
from ...postprocess.postprocessor import Postprocessor
from ...tokenization.detokenizer import DetokenizerFactory
from ..request.chat_request import CalledFunction, Message, ToolCall
from .conversation import read_arguments

FINISHED = ("stop", "tool_calls")


class Answer(msgspec.Struct):
    """One choice that has finished.

    message: as a client sends it back, without reasoning.
    token_ids: all that were generated; none if a stop string ended the answer before them.
    """

    reasoning: str
    message: Message
    finish_reason: str | None
    token_ids: list[int]

    @property
    def problem(self) -> str | None:
        """Why the answer cannot be trusted to be what the model meant; None if it can."""
        if self.finish_reason not in FINISHED:
            return "cut"
        calls = self.message.tool_calls or []
        is_whole = all(isinstance(read_arguments(call.function), dict) for call in calls)
        if not is_whole or bool(calls) != (self.finish_reason == "tool_calls"):
            return "malformed"
        return None


class _Parts(msgspec.Struct):
    """The deltas of one choice before the last one."""

    reasoning: list[str] = []
    content: list[str] = []
    calls: list[list[ToolCallDelta]] = []


class AnswerCollector:
    """Collects the deltas of one response.

    token_ids: of each choice, so far; the caller of `add` extends them.
    keep: takes each choice that has finished. read_reasoning: returns the reasoning in token ids,
        if the deltas have none; may raise `ParserFailedError`.
    """

    def __init__(
        self,
        token_ids: Sequence[list[int]],
        keep: Callable[[Answer], None],
        read_reasoning: Callable[[list[int]], str] | None = None,
    ) -> None:
        self._keep = keep
        self._read_reasoning = read_reasoning
        self._token_ids = token_ids
        self._parts = [_Parts() for _ in token_ids]

    def add(self, deltas: Sequence[ChoiceDelta]) -> None:
        """Take the deltas of one chunk."""
        # This runs for each token: it only appends a text, and frees the delta. Before the last
        # one, a delta has one kind of text.
        for delta in deltas:
            part = delta.delta
            if delta.finish_reason is not None:
                self._finish(delta)
            elif part.reasoning_content:
                self._parts[delta.index].reasoning.append(part.reasoning_content)
            elif part.content:
                self._parts[delta.index].content.append(part.content)
            elif part.tool_calls:
                self._parts[delta.index].calls.append(part.tool_calls)

    def _finish(self, last: ChoiceDelta) -> None:
        token_ids, parts = self._token_ids[last.index], self._parts[last.index]
        self._parts[last.index] = _Parts()
        begun = Delta(
            content="".join(parts.content),
            reasoning_content="".join(parts.reasoning),
            tool_calls=[call for calls in parts.calls for call in calls],
        )
        answer = _join([ChoiceDelta(last.index, begun), last], token_ids)
        if self._read_reasoning is not None:
            # An answer that cannot be read is kept without.
            with contextlib.suppress(ParserFailedError):
                answer.reasoning = self._read_reasoning(token_ids)
        self._keep(answer)


def read_answer(
    token_ids: list[int],
    prompt_token_ids: list[int],
    params: PostprocessParams,
    detokenizers: DetokenizerFactory,
    parsers: ParserFactory,
) -> Answer:
    """Return the answer that the model's parser reads from `token_ids`.

    params: of a request with the same tools. Raises `ParserFailedError`.
    """
    read = Postprocessor(
        PostprocessParams(
            response_id=params.response_id,
            created=params.created,
            model=params.model,
            prompt_length=len(prompt_token_ids),
            detokenizer=params.detokenizer,
            parser=msgspec.structs.replace(
                params.parser, tool_choice="auto", json_calls=False, include_reasoning=True
            ),
        ),
        detokenizers,
        parsers,
        prompt_token_ids=prompt_token_ids,
        on_error="fail",
    )
    return _join(read.feed(Chunk(token_ids=token_ids, finish_reason="stop")), token_ids)


def _join(deltas: list[ChoiceDelta], token_ids: list[int]) -> Answer:
    whole = aggregate_deltas(deltas)
    calls = [
        ToolCall(CalledFunction(call.function.name or "", call.function.arguments), call.id)
        for call in whole.delta.tool_calls
    ]
    message = Message("assistant", content=whole.delta.content or "", tool_calls=calls)
    if isinstance(whole.stop_reason, str):
        token_ids = []
    return Answer(whole.delta.reasoning_content or "", message, whole.finish_reason, token_ids)
