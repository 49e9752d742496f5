"""An engine that generates recorded outputs at a set pace, in the form of Dynamo's vLLM."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence

from dynamo.common.utils.token_ids import normalize_request_token_ids
from typing_extensions import override

from ...base.json_types import JsonObject
from ...engines.dynamo.types import Context
from ...worker.engine_request import EngineRequestHandle


class ReplayEngine:
    """Generates recorded outputs.

    find: returns the rest of a request's output; raises for an unknown request.
    tokens_per_second: per stream; 0 for no limit.
    eos_token_ids: end a choice, as the request's stop tokens do.
    """

    def __init__(
        self,
        find: Callable[[JsonObject], Sequence[int]],
        *,
        tokens_per_second: float = 0.0,
        tokens_per_chunk: int = 1,
        eos_token_ids: Iterable[int] = (),
    ) -> None:
        self._find = find
        self._steps = Steps(tokens_per_chunk / tokens_per_second if tokens_per_second else 0.0)
        self._tokens_per_chunk = tokens_per_chunk
        self._eos_token_ids = frozenset(eos_token_ids)

    def start(self, request: JsonObject, context: Context) -> Replay:
        """Return the generation of one request, whose outputs raise what `find` raises."""
        normalize_request_token_ids(request)
        return Replay(
            request,
            context,
            self._find,
            Ending(request, self._eos_token_ids),
            self._steps,
            tokens_per_chunk=self._tokens_per_chunk,
        )


class Steps:
    """The steps of an engine: in each step, every running request generates tokens.

    every_s: time between steps; 0 for no limit.
    """

    def __init__(self, every_s: float) -> None:
        self._every_s = every_s
        self._waiting: list[asyncio.Future[None]] = []
        self._next_at = 0.0

    async def wait(self) -> None:
        """Wait for the next step."""
        if not self._every_s:
            await asyncio.sleep(0)
            return
        loop = asyncio.get_running_loop()
        if not self._waiting:
            self._next_at = max(self._next_at + self._every_s, loop.time())
            loop.call_at(self._next_at, self._step)
        future = loop.create_future()
        self._waiting.append(future)
        await future

    def _step(self) -> None:
        waiting, self._waiting = self._waiting, []
        for future in waiting:
            if not future.done():
                future.set_result(None)


class Ending:
    """Determines where a request's limits and stop tokens end an output, and why.

    Stop strings are left to post-processing, as with all engines.
    """

    def __init__(self, request: JsonObject, eos_token_ids: frozenset[int]) -> None:
        conditions = request.get("stop_conditions") or {}
        self._max_tokens: int | None = conditions.get("max_tokens")
        self._min_tokens: int = conditions.get("min_tokens") or 0
        self._eos = frozenset() if conditions.get("ignore_eos") else eos_token_ids
        hidden = conditions.get("stop_token_ids_hidden") or ()
        self._stops = frozenset((*(conditions.get("stop_token_ids") or ()), *hidden)) - self._eos
        self.finish_reason = "stop"
        self.stop_reason: int | None = None

    def cut(self, token_ids: Sequence[int]) -> Sequence[int]:
        """Return the generated part of `token_ids`, and set the reasons for its end."""
        for length, token_id in enumerate(token_ids, 1):
            if length >= self._min_tokens and token_id in (self._eos | self._stops):
                self.stop_reason = token_id if token_id in self._stops else None
                return token_ids[:length]
            if length == self._max_tokens:
                self.finish_reason = "length"
                return token_ids[:length]
        return token_ids


class Replay(EngineRequestHandle):
    """The generation of one request. find: returns the output of each of its choices."""

    def __init__(
        self,
        request: JsonObject,
        context: Context,
        find: Callable[[JsonObject], Sequence[int]],
        ending: Ending,
        steps: Steps,
        *,
        tokens_per_chunk: int,
    ) -> None:
        self._context = context
        self._prompt_tokens = len(request["token_ids"])
        self._running = set(range((request.get("sampling_options") or {}).get("n") or 1))
        self._sent = dict.fromkeys(self._running, 0)  # by choice: tokens delivered
        self._intervals = dict.fromkeys(self._running, 1)
        self._logprobs = (request.get("output_options") or {}).get("logprobs") is not None
        self._token_ids: Sequence[int] = ()
        self._find = functools.partial(find, request)
        self._ending = ending
        self._tokens_per_chunk = tokens_per_chunk
        self._steps = steps
        self._generated = 0

    @override
    async def abort(self, index: int) -> None:
        self._running.discard(index)

    @override
    def set_stream_interval(self, index: int, tokens: int) -> None:
        self._intervals[index] = tokens

    async def outputs(self) -> AsyncGenerator[JsonObject, None]:
        """Yield outputs like Dynamo's vLLM handler until all choices end or the client leaves."""
        self._token_ids = self._ending.cut(self._find())
        total = len(self._token_ids)
        for position in range(0, total, self._tokens_per_chunk):
            await (self._steps.wait() if position else asyncio.sleep(0))
            end = min(position + self._tokens_per_chunk, total)
            for index in sorted(self._running):
                if self._context.is_stopped():
                    return
                sent = self._sent[index]
                if index in self._running and (
                    not sent or end == total or end - sent >= self._intervals[index]
                ):
                    self._sent[index] = end
                    yield self._output(index, sent, end)
            if not self._running:
                return

    def _output(self, index: int, start: int, end: int) -> JsonObject:
        token_ids = list(self._token_ids[start:end])
        self._generated += len(token_ids)
        output: JsonObject = {"index": index, "token_ids": token_ids}
        last = end == len(self._token_ids)
        if self._logprobs:
            # A recording has no alternatives.
            output["log_probs"] = [0.0] * len(token_ids)
            output["top_logprobs"] = [
                [{"rank": 1, "token_id": token_id, "logprob": 0.0}] for token_id in token_ids
            ]
        if start == 0 or last:
            output["completion_usage"] = {
                "prompt_tokens": self._prompt_tokens,
                "completion_tokens": self._generated,
                "total_tokens": self._prompt_tokens + self._generated,
            }
        if last:
            output["finish_reason"] = self._ending.finish_reason
            if self._ending.stop_reason is not None:
                output["stop_reason"] = self._ending.stop_reason
        return output
