"""Sends a request with a grammar to another worker when its own dies.

Dynamo does that for all other requests: it appends the tokens so far to the prompt. A grammar would
begin anew there, so the request goes on only where that is right: within reasoning, and in text in
which calls are free to begin. Otherwise its answer begins anew if the client has nothing of it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence

from ...base.json_types import JsonObject
from ...base.log import get_logger
from ...engines.dynamo.types import AnnotatedItem, Context, RoutedEngine
from ...guided.call_policy import leaves_text_free
from ...guided.continuation import go_on_after
from ...postprocess.messages import PostprocessParams
from ...postprocess.postprocessor import Postprocessor
from ..grammar_start import GrammarStart
from .worker_stream import StreamReader, WorkerError, find_output, interpret_error

logger = get_logger(__name__)

# Another worker has no more room than the one that said so.
_FULL = "CapacityExhausted:"


class GuidedMoves:
    """Routes one request with a grammar, at most `1 + limit` times.

    engine: routes. reader: of the answer. params: of a request with one choice.
    grammar: as for a first token without reasoning; `start` says where it begins.
    """

    def __init__(
        self,
        engine: RoutedEngine,
        limit: int,
        reader: StreamReader,
        params: PostprocessParams,
        grammar: JsonObject,
        start: GrammarStart,
        make_postprocessor: Callable[[], Postprocessor],
    ) -> None:
        self._engine = engine
        self._left = limit
        self._reader = reader
        self._params = params
        self._grammar = grammar
        self._start = start
        self._make_postprocessor = make_postprocessor

    async def generate(
        self, request: JsonObject, *, context: Context
    ) -> AsyncIterator[AnnotatedItem | JsonObject]:
        """Return the items of the first worker, then of those that go on in its place."""
        return self._generate(request, context)

    async def _generate(
        self, first: JsonObject, context: Context
    ) -> AsyncIterator[AnnotatedItem | JsonObject]:
        request = first
        while True:
            error: Exception = WorkerError("its stream has no finish_reason", retryable=True)
            try:
                async for item in await self._engine.generate(request, context=context):
                    find_output(item)  # raises an error that is an item
                    yield item
            except Exception as raised:  # noqa: BLE001 - raised below, unless another one goes on
                error = raised
            if self._reader.finished or context.is_stopped():
                return
            again = self._plan(error, first)
            if again is None:
                raise error
            request = again

    def _plan(self, error: Exception, first: JsonObject) -> JsonObject | None:
        """Return the request that another worker gets after `error`; None: it is lost."""
        shown = interpret_error(error)
        is_lost = isinstance(shown, WorkerError) and shown.retryable
        if not is_lost or str(shown).startswith(_FULL) or not self._left:
            return None
        self._left -= 1
        token_ids = self._reader.token_ids[0]
        if token_ids and self._may_go_on(token_ids):
            request = go_on_after(first, first["token_ids"], token_ids, self._grammar)
            self._start.place(request, self._params)
        elif self._reader.has_sent:
            return None
        else:
            request = first
            self._reader.restart()
        logger.warning(
            "request %s: its worker is gone, another one goes on: %s",
            self._params.response_id,
            shown,
        )
        return request

    def _may_go_on(self, token_ids: Sequence[int]) -> bool:
        """Whether the grammar may begin after the generated tokens."""
        postprocessor = self._make_postprocessor()
        postprocessor.resume(token_ids)
        if postprocessor.finished:
            return False
        parser = postprocessor.choices[0].fallback
        if leaves_text_free(self._grammar):
            return parser.outside_calls
        # Only reasoning comes before the grammar.
        return parser.in_reasoning
