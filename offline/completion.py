"""Builds the text of one answer with the core, identically for every back end.

A back end feeds token ids in pieces of any size. `StopPolicy` and the core determine where the text
ends, and later tokens are dropped, so it does not matter if a back end generates more than needed.
Tokens are checked in order: the first one that is an end-of-sequence token or a stop token, or
whose text completes a stop string, ends the answer; otherwise the limit of tokens does.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol, TypeAlias

import msgspec

from ..base.errors import BackedgeError
from ..base.log import get_logger
from ..parsers.base import ParserFactory, ParserRequest
from ..parsers.linear_parsers import Vocabulary
from ..postprocess.call_hold import FaultyCall
from ..postprocess.delta_builder import aggregate_deltas
from ..postprocess.messages import ChoiceDelta, Chunk, EngineLogprob, PostprocessParams
from ..postprocess.postprocessor import Postprocessor
from ..tokenization.detokenizer import DetokenizerFactory, DetokenizerOptions
from ..tokenization.errors import describe_error
from .results import GeneratedChoice, ParsedMessage, RowError, RowErrorKind, ToolCall

logger = get_logger(__name__)

FinishReason: TypeAlias = Literal["stop", "length"]


def read_finish(reason: object) -> FinishReason:
    """Return why an engine ended an answer: the limit, or anything else."""
    return "length" if reason == "length" else "stop"


@dataclass(frozen=True)
class StopPolicy:
    """The conditions that end one answer.

    strings: searched in the clean text, without duplicates.
    tokens: those that end the answer, with the stop_reason of each: None for the model's own
        end-of-sequence tokens.
    include: whether the text includes the string or token that ended it.
    max_new_tokens: None for no limit. min_tokens: nothing ends the answer before it has more.
    hidden: those of the tokens that the engine does not get.
    """

    strings: Sequence[str] = ()
    tokens: Mapping[int, str | int | None] = field(default_factory=dict)
    include: bool = False
    max_new_tokens: int | None = None
    min_tokens: int = 0
    hidden: frozenset[int] = frozenset()

    def find_end(self, token_ids: Sequence[int], taken: int) -> tuple[int, str | None]:
        """Return how many of `token_ids` belong to the answer, and the finish_reason there.

        taken: number of the answer's tokens before these. The reason is None if it continues.
        """
        limit = len(token_ids) + taken + 1 if self.max_new_tokens is None else self.max_new_tokens
        for count, token_id in enumerate(token_ids[: limit - taken], 1):
            if token_id in self.tokens and taken + count > self.min_tokens:
                return count, "stop"
            if taken + count == limit:
                return count, "length"
        return len(token_ids), None


def normalize_stops(
    stops: Sequence[str],
    stop_token_ids: Sequence[int],
    vocabulary: Vocabulary,
    eos_token_ids: Sequence[int],
    *,
    hides_special: bool,
) -> tuple[list[str], dict[int, str | int | None]]:
    """Return the strings to search, and the tokens that end an answer with their reasons.

    hides_special: the searched text lacks special tokens, so a stop string that is one of them
        becomes a stop token. Otherwise a parser sees them, and the search finds them.
    """
    tokens: dict[int, str | int | None] = dict.fromkeys(eos_token_ids)
    tokens |= {token_id: token_id for token_id in stop_token_ids if token_id not in tokens}
    strings = []
    for stop in dict.fromkeys(stops):
        token_id = vocabulary.ids.get(stop)
        if hides_special and token_id is not None and token_id in vocabulary.special:
            tokens[token_id] = stop
        else:
            strings.append(stop)
    return strings, tokens


# An id that the core generated, as opposed to the model's format.
_DRAWN_ID = re.compile(r"call_[0-9a-f]{24}")


class TextWatcher(Protocol):
    """Reads the clean text of one answer and may end it. name: becomes the stop_reason."""

    name: str

    def feed(self, text: str) -> int | None:
        """Return how many characters of `text` to keep; None to continue."""


@dataclass(frozen=True)
class CompletionSetup:
    """The settings that the answers to one request share.

    key: identifies the request in ids of tool calls. parsers: None for no parsed message.
    logprobs: number of alternatives per token; None for no logprobs.
    """

    key: str
    detokenizers: DetokenizerFactory
    stops: StopPolicy
    prompt_token_ids: Sequence[int] = ()
    parsers: ParserFactory | None = None
    parser_request: ParserRequest = field(default_factory=ParserRequest)
    logprobs: int | None = None


class TokenLogprobs(msgspec.Struct):
    """Logprobs of some tokens: one entry per token, natural logarithms."""

    own: list[float]
    top: list[list[EngineLogprob]]


class Completion:
    """One answer, from its first token to its end.

    token_ids: those of the answer so far. finished: no more tokens are accepted.
    error: why there is no answer; None if there is one. setup: as given.
    watchers: of this answer; cannot be combined with parsers.
    """

    def __init__(
        self, index: int, setup: CompletionSetup, watchers: Sequence[TextWatcher] = ()
    ) -> None:
        self.index = index
        self.token_ids: list[int] = []
        self.finished = False
        self.error: RowError | None = None
        self.setup = setup
        self._logprobs = TokenLogprobs([], [])
        self._watchers = watchers
        self._params = _build_params(setup)
        self._core = Postprocessor(
            self._params,
            setup.detokenizers,
            setup.parsers,
            prompt_token_ids=setup.prompt_token_ids,
        )
        self._deltas: list[ChoiceDelta] = []
        # Number of characters that a watcher has kept.
        self._watched = 0
        self._cut: tuple[int, str] | None = None
        self._ending = "length"
        self._shown = 0  # number of tokens in front of the last piece

    @property
    def needs_steps(self) -> bool:
        """Whether more than the engine knows may end the answer: it is fed each token at once."""
        stops = self.setup.stops
        return bool(stops.strings or stops.hidden or self._watchers)

    def feed(
        self,
        token_ids: Sequence[int],
        logprobs: TokenLogprobs | None = None,
        *,
        ended: FinishReason | None = None,
        stopped_by: str | None = None,
    ) -> bool:
        """Process new tokens; return whether the answer has ended.

        ended: why the back end will generate no more tokens. stopped_by: ends the answer after
        these tokens, and is its stop_reason.
        """
        if self.finished:
            return True
        if logprobs is not None:
            self._logprobs.own += logprobs.own
            self._logprobs.top += logprobs.top
        count, reason = self.setup.stops.find_end(token_ids, len(self.token_ids))
        if reason is None and stopped_by is not None:
            reason = "stop"
        elif reason is None:
            reason = ended
        chunk = self._build_chunk(list(token_ids[:count]), reason, logprobs, stopped_by)
        try:
            if self._watchers:
                self._feed_watched(chunk)
            else:
                self._feed_core(chunk)
        except Exception as error:  # noqa: BLE001 - only this answer is affected
            known = isinstance(error, BackedgeError)
            self._fail("generation", str(error) if known else describe_error(error))
        return self.finished

    def find_fault(self) -> FaultyCall | None:
        """Return the answer's first call that is to be generated again; None if all are right."""
        request = msgspec.structs.replace(self._params.parser, malformed_calls="regenerate")
        params = msgspec.structs.replace(self._params, parser=request)
        setup = self.setup
        core = Postprocessor(
            params, setup.detokenizers, setup.parsers, prompt_token_ids=setup.prompt_token_ids
        )
        # The token with which an engine ends an answer, if any, is not shown.
        core.add(Chunk(token_ids=self.token_ids[: self._shown]))
        core.add(Chunk(token_ids=self.token_ids[self._shown :], finish_reason=self._ending))
        return core.choices[0].faulty

    def begin(self, tokens: int) -> Completion:
        """Return an answer that has the first `tokens` of this one, and goes on in another way."""
        again = Completion(self.index, self.setup, self._watchers)
        own, top = self._logprobs.own[:tokens], self._logprobs.top[:tokens]
        again.feed(self.token_ids[:tokens], TokenLogprobs(own, top) if own else None)
        return again

    def result(self) -> GeneratedChoice:
        """Return the answer, which must have ended."""
        whole = aggregate_deltas(self._deltas, self._core.choices[0].open_calls)
        reason = read_finish(whole.finish_reason)
        text, stop_reason = whole.delta.content or "", whole.stop_reason
        message = None
        if self.setup.parsers is not None:
            message = self._build_message(whole)
            text = self._plain_text(whole)
        if self._cut is not None:
            length, stop_reason = self._cut
            text, reason = text[:length], "stop"
        return GeneratedChoice(
            index=self.index,
            text=text,
            raw_text=self._raw_text(),
            token_ids=self.token_ids,
            finish_reason=reason,
            stop_reason=stop_reason,
            logprobs=whole.logprobs,
            message=message,
        )

    def _build_chunk(
        self,
        token_ids: list[int],
        reason: str | None,
        logprobs: TokenLogprobs | None,
        stopped_by: str | None,
    ) -> Chunk:
        stops, last = self.setup.stops.tokens, token_ids[-1] if token_ids else -1
        return Chunk(
            token_ids=token_ids,
            finish_reason=reason,
            stop_reason=stops.get(last, stopped_by) if reason == "stop" else None,
            logprobs=logprobs.own[: len(token_ids)] if logprobs else None,
            top_logprobs=logprobs.top[: len(token_ids)] if logprobs else None,
        )

    def _feed_core(self, chunk: Chunk) -> list[ChoiceDelta]:
        choice = self._core.choices[0]
        self._core.add(chunk)
        # Without watchers, take all deltas at the end.
        deltas = self._core.take(0) if self._watchers or choice.finished else []
        self._deltas += deltas
        self._shown = len(self.token_ids)
        taken = choice.tokens - self._shown
        self.token_ids += chunk.token_ids[:taken]
        if choice.finished:
            self.finished = True
            if not choice.ended_early:
                self._ending = chunk.finish_reason or self._ending
        return deltas

    def _feed_watched(self, chunk: Chunk) -> None:
        """Feed token by token, so that the same token ends the answer for any pieces."""
        for part in chunk.split():
            deltas = self._feed_core(part)
            text = "".join(delta.delta.content or "" for delta in deltas)
            for watcher in self._watchers if text else ():
                self._watch(watcher, text)
            self._watched += len(text)
            if self._cut is not None and not self.finished:
                self._deltas += self._core.feed(Chunk(finish_reason="length"))
                self.finished = True
            if self.finished:
                return

    def _watch(self, watcher: TextWatcher, text: str) -> None:
        """Pass new text to a watcher; if it raises, the answer fails."""
        try:
            length = watcher.feed(text)
        except Exception as error:
            logger.exception("plugin %r failed on request %r", watcher.name, self.setup.key)
            self._fail("plugin", f"plugin {watcher.name!r} failed: {describe_error(error)}")
            return
        if length is not None and self._cut is None:
            self._cut = self._watched + length, watcher.name

    def _fail(self, kind: RowErrorKind, message: str) -> None:
        self.error = RowError(kind, message)
        self.finished = True

    def _plain_text(self, whole: ChoiceDelta) -> str:
        """Return the text of all tokens, unparsed.

        The parsed answer has determined its last token, so a stop string in its reasoning does not
        end this text either.
        """
        matched = whole.stop_reason if whole.stop_reason in self._params.stop else None
        params = msgspec.structs.replace(
            self._params,
            stop=[] if matched is None else [str(matched)],
            min_tokens=len(self.token_ids) - 1,
            parser=ParserRequest(),
            logprobs=None,
            stream=False,
        )
        plain = Postprocessor(
            params, self.setup.detokenizers, prompt_token_ids=self.setup.prompt_token_ids
        )
        [delta] = plain.feed(Chunk(token_ids=self.token_ids, finish_reason=self._ending))
        return delta.delta.content or ""

    def _raw_text(self) -> str:
        options = DetokenizerOptions(skip_special_tokens=False, spaces_between_special_tokens=False)
        detokenizer = self.setup.detokenizers(options, self.setup.prompt_token_ids)
        return detokenizer.feed_all(self.token_ids)

    def _build_message(self, whole: ChoiceDelta) -> ParsedMessage:
        calls = [
            ToolCall(
                self._stable_id(call.id or "", number),
                call.function.name or "",
                call.function.arguments,
            )
            for number, call in enumerate(whole.delta.tool_calls)
        ]
        reason = whole.finish_reason or "stop"
        if calls and reason == "stop":
            # As Dynamo's HTTP layer has it, also beside a call that is still open.
            reason = "tool_calls"
        return ParsedMessage(whole.delta.reasoning_content, whole.delta.content, calls, reason)

    def _stable_id(self, call_id: str, number: int) -> str:
        """Return an id that is the same in every run, so that two runs give equal files."""
        if not _DRAWN_ID.fullmatch(call_id):
            return call_id
        name = f"{self.setup.key}\n{self.index}\n{number}"
        return f"call_{hashlib.sha256(name.encode(errors='replace')).hexdigest()[:24]}"


def _build_params(setup: CompletionSetup) -> PostprocessParams:
    return PostprocessParams(
        response_id=setup.key,
        created=0,
        model="",
        prompt_length=len(setup.prompt_token_ids),
        stream=True,
        stop=list(setup.stops.strings),
        min_tokens=setup.stops.min_tokens,
        include_stop_str_in_output=setup.stops.include,
        logprobs=setup.logprobs,
        parser=setup.parser_request if setup.parsers is not None else ParserRequest(),
    )
