"""All choices of one request: where the core is entered."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from ..parsers.base import ParserFactory
from ..parsers.errors import ParserFailedError
from ..parsers.passthrough import PassthroughParsers
from ..tokenization.detokenizer import DetokenizerFactory
from .aggregate import aggregate_deltas
from .choice import Choice
from .fallback import OnError, Report
from .messages import ChoiceDelta, Chunk, PostprocessParams, Usage

logger = logging.getLogger(__name__)


def log_failure(failure: ParserFailedError) -> None:
    """Log a parser's failure; the default for `Postprocessor.report`."""
    logger.error("%s", failure, exc_info=failure.__cause__)


class Postprocessor:
    """Turns the chunks of one request into OpenAI deltas, for all its choices.

    parsers: None for a model without any. prompt_token_ids: as rendered, without
    generated tokens; parsers look whether it leaves reasoning open.
    on_error: what a parser that raises does to this request. report: told of it.
    With `params.stream` False the deltas of a choice come as one, at its finish.
    """

    def __init__(
        self,
        params: PostprocessParams,
        detokenizers: DetokenizerFactory,
        parsers: ParserFactory | None = None,
        *,
        prompt_token_ids: Sequence[int] = (),
        on_error: OnError = "degrade",
        report: Report = log_failure,
    ) -> None:
        self.params = params
        self._choices = [
            Choice(
                params,
                index,
                detokenizers,
                parsers or PassthroughParsers(),
                prompt_token_ids,
                on_error,
                report,
            )
            for index in range(params.n)
        ]
        self._prompt_tokens = params.prompt_length
        self._cached_tokens: int | None = None
        self._resumed = 0

    @property
    def finished(self) -> bool:
        """Whether every choice has finished."""
        return all(choice.finished for choice in self._choices)

    @property
    def usage(self) -> Usage:
        """Tokens so far."""
        return Usage(
            self._prompt_tokens,
            sum(choice.tokens for choice in self._choices),
            sum(choice.reasoning_tokens for choice in self._choices),
            self._cached_tokens,
        )

    def ended_early(self, index: int | None = None) -> bool:
        """Whether the choice (any of them, for None) finished before the engine: its work must be ended."""
        choices = self._choices if index is None else [self._choices[index]]
        return any(choice.ended_early for choice in choices)

    def choice(self, index: int) -> Choice:
        """Return one choice. Raises IndexError for one that the request does not have."""
        return self._choices[index]

    def feed(self, chunk: Chunk) -> list[ChoiceDelta]:
        """Return the deltas that `chunk` completes.

        Raises IndexError for a choice the request does not have, and
        `ParserFailedError` if a parser raised and `on_error` is "fail".
        """
        self.add(chunk)
        return self.take(chunk.index)

    def add(self, chunk: Chunk) -> None:
        """Take `chunk`; the deltas wait for `take`. Raises as `feed`."""
        self.note_usage(chunk)
        choice = self._choices[chunk.index]
        if not choice.finished:
            choice.feed(chunk)

    def note_usage(self, chunk: Chunk) -> None:
        """Take what `chunk` says of the prompt."""
        if chunk.prompt_tokens is not None:
            # A migrated request counts its generated tokens as prompt.
            self._prompt_tokens = chunk.prompt_tokens - self._resumed
        if chunk.cached_tokens is not None:
            self._cached_tokens = chunk.cached_tokens

    def take(self, index: int) -> list[ChoiceDelta]:
        """Return the deltas of a choice since the last call; without `params.stream` one delta, at its finish."""
        choice = self._choices[index]
        if self.params.stream:
            return choice.take()
        if not choice.finished or not choice.pending:
            return []
        return [aggregate_deltas(choice.take())]

    def resume(self, token_ids: Sequence[int], index: int = 0) -> list[ChoiceDelta]:
        """Take tokens whose text the client has got already, from another process.

        Returns nothing, unless they end the choice: then the finish, which the
        client may not have got.
        """
        if not token_ids:
            return []
        self._resumed += len(token_ids)
        deltas = self.feed(Chunk(index=index, token_ids=list(token_ids)))
        if not self._choices[index].finished:
            return []
        if not self.params.stream:
            return deltas
        return [
            ChoiceDelta(
                index, finish_reason=deltas[-1].finish_reason, stop_reason=deltas[-1].stop_reason
            )
        ]
