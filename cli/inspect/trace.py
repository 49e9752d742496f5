"""Repeats the post-processing of a recording one token at a time.

`postprocess/choice.py` builds the same stages as in a worker and feeds them.
After each token the stages are asked for held-back text and state; the parser's events are
intercepted. Feeding single tokens does not change the result: linear parsers do not depend on
chunk boundaries, and native ones always get single tokens.
"""

from __future__ import annotations

import codecs
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, TypeVar, cast

import msgspec
from typing_extensions import override

from ...base.errors import BackedgeError
from ...base.limits import MAX_SHOWN_TOKENS
from ...parsers.events import Event, ToolCallArguments, ToolCallStarted
from ...parsers.held_back import HeldText, hold
from ...postprocess.choice import Choice, PostprocessSetup
from ...postprocess.delta_builder import aggregate_deltas
from ...postprocess.messages import ChoiceDelta, Chunk, PostprocessParams
from ...postprocess.stage_timing import Stage, StageClock
from ...recording.recording import RecordedChunk, Recording
from ...recording.rerun import Parts, prompt_ids, regenerating

StopCheck = Literal["none", "searched", "reasoning", "min_tokens", "matched"]
"""Whether a token's text was searched for stop strings; in reasoning it never is."""

T = TypeVar("T")


class TraceError(BackedgeError):
    """A recording cannot be traced. The message names the token, and what to change."""


class Step(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """One token and its effect on the stages.

    token_id: None if generation ended without a token. text: the token's own, with bytes that
        are not characters as lone surrogates; "" without a tokenizer.
    chunk: number of the engine's chunk, from 0. at_ms: of that chunk, since the request arrived.
    state: after the token. events: of the parser. deltas: those that this token allows to send.
    ignored: the choice had already finished. discarded: why the token's call was generated again.
    """

    token_id: int | None
    text: str = ""
    chunk: int
    at_ms: float
    state: str = ""
    events: list[Event] = []
    held: list[HeldText] = []
    deltas: list[ChoiceDelta] = []
    stop: StopCheck = "none"
    ignored: bool = False
    discarded: str = ""


class ChoiceTrace(msgspec.Struct, omit_defaults=True, kw_only=True):
    """All tokens of one choice, as read by one pair of parsers.

    parsers: their names. kind: "linear", "native", "none" for no parser, or "" without a
        tokenizer, when only token ids and times are known.
    whole: all deltas as one. failures: of the parser, as text. left_out: number of tokens beyond
    `MAX_SHOWN_TOKENS`.
    """

    parsers: str
    kind: str
    index: int
    steps: list[Step]
    whole: ChoiceDelta | None = None
    failures: list[str] = []
    left_out: int = 0


class _EventTap(StageClock):
    """Replaces the stages' clock in order to intercept the parser's events."""

    def __init__(self) -> None:
        super().__init__()
        self.events: list[Event] = []

    @override
    def measure(self, stage: Stage, part: T) -> T:
        return cast("T", _TappedParser(part, self.events)) if stage == "parse" else part


class _TappedParser:
    """A proxy of a parser that records the events it returns."""

    def __init__(self, parser: object, events: list[Event]) -> None:
        self._parser = parser
        self._events = events

    def __getattr__(self, name: str) -> object:
        found = getattr(self._parser, name)
        return self._tap(found) if name in {"feed", "finish", "degrade"} else found

    def _tap(self, method: Callable[..., list[Event]]) -> Callable[..., list[Event]]:
        def tapped(*args: object, **kwargs: object) -> list[Event]:
            events = method(*args, **kwargs)
            self._events += events
            return events

        return tapped


@dataclass
class _TracedChoice:
    """A choice whose tokens are being fed."""

    choice: Choice
    tap: _EventTap
    parts: Parts
    params: PostprocessParams
    failures: list[str]
    steps: list[Step] = field(default_factory=list)
    deltas: list[ChoiceDelta] = field(default_factory=list)
    in_call: bool = False

    def __post_init__(self) -> None:
        self._characters = codecs.getincrementaldecoder("utf-8")("replace")

    def take(self, chunk: Chunk, number: int, at_ms: float) -> None:
        """Feed a chunk of one token, or only a finish reason, and record its effect."""
        token_id = chunk.token_ids[0] if chunk.token_ids else None
        text = b"" if token_id is None else self.parts.detokenizers.token_bytes(token_id)
        shown = text.decode("utf-8", "surrogateescape")
        if self.choice.finished:
            self.steps.append(
                Step(token_id=token_id, text=shown, chunk=number, at_ms=at_ms, ignored=True)
            )
            return
        stop = self._stop_check()
        self.choice.feed(chunk)
        deltas = self.choice.deltas.take()
        self.deltas += deltas
        events, self.tap.events[:] = list(self.tap.events), []
        matched = self.choice.stop is not None and self.choice.stop.matched is not None
        self.steps.append(
            Step(
                token_id=token_id,
                text=shown,
                chunk=number,
                at_ms=at_ms,
                state=self._state(events),
                events=events,
                held=self._held(token_id, text),
                deltas=deltas,
                stop="matched" if matched else stop,
            )
        )

    def finish(self, index: int, left_out: int) -> ChoiceTrace:
        """Return the recorded steps as a trace."""
        whole = aggregate_deltas(self.deltas, self.choice.open_calls) if self.deltas else None
        return ChoiceTrace(
            parsers=self.parts.parsers.name,
            kind=self.parts.kind,
            index=index,
            steps=self.steps,
            whole=whole,
            failures=self.failures,
            left_out=left_out,
        )

    def _stop_check(self) -> StopCheck:
        if self.choice.stop is None:
            return "none"
        if self.choice.fallback.in_reasoning:
            return "reasoning"
        return "searched" if self.choice.tokens >= self.params.min_tokens else "min_tokens"

    def _state(self, events: Sequence[Event]) -> str:
        """Return the state; native parsers have none, so derive theirs from their events."""
        name = self.choice.fallback.state_name
        for event in events:
            self.in_call = isinstance(event, ToolCallStarted | ToolCallArguments)
        return "call" if name == "answer" and self.in_call else name

    def _held(self, token_id: int | None, text: bytes) -> list[HeldText]:
        """Return the text held back after this token, in the order in which it was written."""
        hides = self.params.detokenizer.skip_special_tokens
        if token_id is not None and not (hides and self.parts.detokenizers.is_special(token_id)):
            self._characters.decode(text)
        if self.choice.finished:
            return []
        stop = self.choice.stop
        bytes_left = self._characters.getstate()[0].decode("utf-8", "surrogateescape")
        return [
            *self.choice.deltas.held,
            *(self.choice.fallback.held or ()),
            *(stop.held if stop is not None else ()),
            *hold("partial character", bytes_left),
        ]


def trace(recording: Recording, parts: Parts) -> list[ChoiceTrace]:
    """Feed a recording to new stages; return the effect of each token, by choice.

    Raises `TraceError` for tokens that the tokenizer does not know.
    """
    traced = {index: _begin(recording, parts, index) for index in used_choices(recording)}
    attempts: dict[int, _TracedChoice] = {}

    def take(token: Token) -> None:
        choice, chunk = traced[token.chunk.index], token.chunk
        try:
            if token.call is None:
                choice.take(chunk, token.number, token.at_ms)
            else:
                if token.call not in attempts:
                    attempts[token.call] = _begin_attempt(recording, parts, token.call)
                attempt = attempts[token.call]
                attempt.take(chunk, token.number, token.at_ms)
                reason = recording.discarded[token.call].reason
                step = msgspec.structs.replace(attempt.steps[-1], deltas=[], discarded=reason)
                choice.steps.append(step)
        except Exception as error:
            # A tokenizer may raise anything for unknown ids.
            raise TraceError(
                f"token {len(choice.steps) + 1} of choice {chunk.index}, with the ids "
                f"{chunk.token_ids}, cannot be post-processed ({type(error).__name__}: {error}); "
                "if the recording has another tokenizer, name its model with --model."
            ) from error

    left_out = _take_shown(recording, take)
    return [choice.finish(index, left_out[index]) for index, choice in traced.items()]


def _take_shown(recording: Recording, take: Callable[[Token], None]) -> Counter[int]:
    """Pass each token that is shown to `take`; return how many are left out, by choice."""
    taken, left_out = Counter[int](), Counter[int]()
    for token in single_tokens(recording):
        index = token.chunk.index
        if taken[index] == MAX_SHOWN_TOKENS:
            left_out[index] += 1
        else:
            taken[index] += 1
            take(token)
    return left_out


def _begin_attempt(recording: Recording, parts: Parts, number: int) -> _TracedChoice:
    """Return the choice in front of the attempt `number` that was discarded."""
    call = recording.discarded[number]
    again = msgspec.structs.replace(recording, params=regenerating(recording.params))
    attempt = _begin(again, parts, 0)
    for recorded in recording.chunks[: call.after]:
        attempt.choice.feed(recorded.chunk)
    attempt.choice.deltas.take()
    attempt.tap.events.clear()
    return attempt


def _begin(recording: Recording, parts: Parts, index: int) -> _TracedChoice:
    params = recording.params
    tap, failures = _EventTap(), list[str]()
    setup = PostprocessSetup(
        parts.detokenizers,
        parts.parsers,
        "degrade",
        lambda failure: failures.append(str(failure)),
    )
    choice = Choice(params, index, prompt_ids(recording), setup, tap)
    return _TracedChoice(choice, tap, parts, params, failures)


def trace_ids(recording: Recording) -> list[ChoiceTrace]:
    """Return traces of ids and times only, for a recording without its tokenizer."""
    steps: dict[int, list[Step]] = {index: [] for index in used_choices(recording)}

    def take(token: Token) -> None:
        token_id = token.chunk.token_ids[0] if token.chunk.token_ids else None
        reason = "" if token.call is None else recording.discarded[token.call].reason
        steps[token.chunk.index].append(
            Step(token_id=token_id, chunk=token.number, at_ms=token.at_ms, discarded=reason)
        )

    left_out = _take_shown(recording, take)
    names = recording.model.parsers.label
    return [
        ChoiceTrace(parsers=names, kind="", index=index, steps=found, left_out=left_out[index])
        for index, found in steps.items()
    ]


def used_choices(recording: Recording) -> list[int]:
    """Return the choices that the request asks for or that a chunk names."""
    named = {token.chunk.index for token in single_tokens(recording)}
    return sorted(named | set(range(recording.params.n)))


class Token(NamedTuple):
    """A recorded token, or a finish without one.

    number, at_ms: of the engine's chunk. call: number of the discarded attempt, if it belongs to
        one.
    """

    number: int
    at_ms: float
    chunk: Chunk
    call: int | None


def single_tokens(recording: Recording) -> Iterator[Token]:
    """Yield the tokens one by one; those of a discarded attempt stand where they came."""
    for number, (recorded, call) in enumerate(_list_chunks(recording)):
        for chunk in recorded.chunk.split():
            if chunk.token_ids or chunk.finish_reason is not None:
                yield Token(number, recorded.at_ms, chunk, call)


def _list_chunks(recording: Recording) -> Iterator[tuple[RecordedChunk, int | None]]:
    calls = sorted(
        range(len(recording.discarded)), key=lambda each: recording.discarded[each].after
    )
    for position in range(len(recording.chunks) + 1):
        while calls and recording.discarded[calls[0]].after <= position:
            call = calls.pop(0)
            yield from ((recorded, call) for recorded in recording.discarded[call].chunks)
        if position < len(recording.chunks):
            yield recording.chunks[position], None
