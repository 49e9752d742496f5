"""Sends a request with a grammar to another worker when its own dies.

Dynamo does that for all other requests: it appends the tokens so far to the prompt, and a grammar
would begin anew there. That is right within reasoning, and in text in which calls are free to
begin. JSON goes on under the grammar of its rest. Otherwise an answer begins anew if the client has
nothing of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence

from ...base.json_types import JsonObject
from ...base.log import get_logger
from ...engines.dynamo.types import AnnotatedItem, Context, RoutedEngine
from ...guided.call_policy import as_guided_decoding, leaves_text_free, read_schema
from ...guided.continuation import go_on_after
from ...parsers.json_rest import build_rest
from ...postprocess.messages import Chunk, PostprocessParams
from ...postprocess.postprocessor import Postprocessor
from ..grammar_start import GrammarStart
from ..turns.turn_keeper import LocalFactories
from .worker_stream import StreamReader, WorkerError, find_output, interpret_error, is_lost

logger = get_logger(__name__)

# With these a value begins that a grammar goes on with.
_JSON_BEGINNINGS = '{["'


class GuidedMoves:
    """Routes one request with a grammar, at most `1 + limit` times.

    engine: routes. reader: of the answer. params: of a request with one choice.
    grammar: as for a first token without reasoning; `start` says where it begins.
    factories: build the post-processing that reads what was generated.
    """

    def __init__(
        self,
        engine: RoutedEngine,
        limit: int,
        reader: StreamReader,
        params: PostprocessParams,
        grammar: JsonObject,
        start: GrammarStart,
        factories: LocalFactories,
    ) -> None:
        self._engine = engine
        self._left = limit
        self._reader = reader
        self._params = params
        self._grammar = grammar
        self._start = start
        self._factories = factories

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
            again = await self._plan(error, first)
            if again is None:
                raise error
            request = again

    async def _plan(self, error: Exception, first: JsonObject) -> JsonObject | None:
        """Return the request that another worker gets after `error`; None: it is lost."""
        if not is_lost(error) or not self._left:
            return None
        self._left -= 1
        token_ids = self._reader.token_ids[0]
        request: JsonObject | None = first
        if token_ids:  # in a thread, since all of them are read once more
            request = await asyncio.to_thread(self._go_on, first, token_ids)
        if request is None:
            if self._reader.has_sent:
                return None
            self._reader.restart()
            request = first
        logger.warning(
            "request %s: its worker is gone, another one goes on: %s",
            self._params.response_id,
            interpret_error(error),
        )
        return request

    def _go_on(self, first: JsonObject, token_ids: Sequence[int]) -> JsonObject | None:
        """Return the request for all after `token_ids`; None if its grammar is not known."""
        prompt: list[int] = first["token_ids"]
        postprocessor = Postprocessor(self._params, *self._factories(), prompt_token_ids=prompt)
        choice = postprocessor.choices[0]
        reasoning = 0 if choice.fallback.in_reasoning else -1
        for count, token_id in enumerate(token_ids, 1):
            postprocessor.add(Chunk(index=0, token_ids=[token_id]))
            if choice.fallback.in_reasoning:
                reasoning = count
        if choice.finished:
            return None
        if leaves_text_free(self._grammar):
            begins = choice.fallback.outside_calls
        else:
            # Only reasoning comes before the grammar.
            text = self._decode(token_ids)
            begins = choice.fallback.in_reasoning and not _begins_json(text)
        if begins:
            request = go_on_after(first, prompt, token_ids, self._grammar)
            self._start.place(request, self._params)
            return request
        # The token after the last one of the reasoning ends it.
        rest = self._find_rest(token_ids, reasoning + 1)
        return rest and go_on_after(first, prompt, token_ids, rest, at_once=True)

    def _find_rest(self, token_ids: Sequence[int], begin: int) -> JsonObject | None:
        """Return the grammar of the rest of JSON that begins with the token at `begin`."""
        if self._grammar.keys() != {"json"} or not self._reader.has_sent:
            return None
        schema = read_schema(self._grammar["json"])
        end_of_reasoning = self._decode(token_ids[max(0, begin - 1) : begin])
        text = self._decode(token_ids[begin:])
        if not isinstance(schema, dict) or text is None:
            return None
        if text.strip() and not _begins_json(text):
            return None
        if begin and set(end_of_reasoning or _JSON_BEGINNINGS) & {*_JSON_BEGINNINGS}:
            return None  # the token may hold the beginning of the JSON as well
        rest = build_rest(text, schema)
        return rest and as_guided_decoding(rest)

    def _decode(self, token_ids: Sequence[int]) -> str | None:
        """Return the text of tokens; None if it ends within a character."""
        detokenizers, _ = self._factories()
        try:
            return detokenizers.read(token_ids, "strict")
        except UnicodeDecodeError:
            return None


def _begins_json(text: str | None) -> bool:
    return (text or "").lstrip().startswith(tuple(_JSON_BEGINNINGS))
