"""Post-processing around an engine's `generate`, whatever the engine is.

The engine's adapter says how to read a request and how to end a choice's work;
everything else is here.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable

from ..parsers.base import ParserFactory
from ..parsers.errors import ParserFailedError, ProtocolError
from ..postprocess.detokenizer import DetokenizerFactory
from ..postprocess.guard import OnError, Report
from ..postprocess.messages import KEY, ChoiceDelta, Post, Spec, encode, read
from ..postprocess.outputs import JsonDict, chunk_of, error_of
from ..postprocess.request import Postprocessor

logger = logging.getLogger(__name__)

EndChoice = Callable[[int], Awaitable[None]]


def read_spec(request: JsonDict) -> Spec | None:
    """Return the request's spec, or None if its chunks are to pass untouched."""
    extra_args = request.get("extra_args")
    if not isinstance(extra_args, dict):
        return None
    try:
        return read(Spec, extra_args.get(KEY))
    except ProtocolError as error:
        # The frontend post-processes what we leave alone, so the client loses nothing.
        logger.warning("request passes without post-processing: %s", error)
        return None


class WorkerPostprocessor:
    """Wraps the output stream of each request; one per worker."""

    def __init__(
        self,
        detokenizers: DetokenizerFactory,
        parsers: ParserFactory,
        on_error: OnError,
        report: Report,
    ) -> None:
        self._detokenizers = detokenizers
        self._parsers = parsers
        self._on_error = on_error
        self._report = report

    async def stream(
        self,
        outputs: AsyncIterator[JsonDict],
        spec: Spec,
        token_ids: list[int],
        end_choice: EndChoice,
    ) -> AsyncGenerator[JsonDict, None]:
        """Yield the engine's `outputs` with a `Post` each; a choice's all in one if not `spec.stream`.

        token_ids: the request's; behind the prompt come tokens that a worker
            which died has generated and sent.
        end_choice: ends the engine's work on a choice.
        """
        request = RequestStream(spec, end_choice)
        try:
            post = Postprocessor(
                spec,
                self._detokenizers,
                self._parsers,
                prompt_token_ids=token_ids[: spec.prompt_length],
                on_error=self._on_error,
                report=self._report,
            )
            if finish := post.replay(token_ids[spec.prompt_length :]):
                await request.end_all()
                yield request.with_post({"index": 0, "token_ids": []}, finish, post, finished=True)
            # To the very end, also behind a finish of ours, so that the engine's handler cleans up in order.
            async for output in outputs:
                async for processed in request.output(post, output):
                    yield processed
        except ParserFailedError as failure:
            await request.end_all()
            yield {"index": 0, "token_ids": [], "finish_reason": f"error: {failure}"}


class RequestStream:
    """What one request's chunks become, besides the deltas."""

    def __init__(self, spec: Spec, end_choice: EndChoice) -> None:
        self._spec = spec
        self._end_choice = end_choice
        self._held: dict[int, list[int]] = {index: [] for index in range(spec.n)}
        self._closed: set[int] = set()

    async def output(self, post: Postprocessor, output: JsonDict) -> AsyncGenerator[JsonDict, None]:
        """Yield what `output` becomes: itself with a `Post`, or nothing yet."""
        if error_of(output) is not None:
            yield output
            return
        chunk = chunk_of(output)
        if chunk.index in self._closed:
            return  # the engine's last words on a choice that we have ended
        deltas = post.feed(chunk)
        finished = chunk.finish_reason is not None or post.ended_early(chunk.index)
        if finished:
            self._closed.add(chunk.index)
        if post.ended_early(chunk.index) and chunk.finish_reason is None:
            await self._end_choice(chunk.index)
        if not self._spec.stream:
            self._held[chunk.index] += chunk.token_ids
            if not finished:
                return
            output["token_ids"] = self._held.pop(chunk.index)
        yield self.with_post(output, deltas, post, finished=finished)

    async def end_all(self) -> None:
        """End the engine's work on the whole request."""
        for index in range(self._spec.n):
            if index not in self._closed:
                self._closed.add(index)
                await self._end_choice(index)

    def with_post(
        self, output: JsonDict, deltas: list[ChoiceDelta], post: Postprocessor, *, finished: bool
    ) -> JsonDict:
        """Return `output` with what it means in it; finished: these deltas end the choice."""
        usage = None
        if self._spec.continuous_usage_stats or (finished and post.finished):
            usage = post.usage
        if finished:
            # What the client sees is tool_calls, say; Dynamo knows the engines' words only.
            cut = deltas[-1].finish_reason in ("length", "content_filter")
            output["finish_reason"] = deltas[-1].finish_reason if cut else "stop"
            if deltas[-1].stop_reason is not None:
                output["stop_reason"] = deltas[-1].stop_reason
        output.pop("log_probs", None)
        output.pop("top_logprobs", None)
        extra_args = output.setdefault("extra_args", {})
        extra_args[KEY] = encode(Post(deltas=deltas, usage=usage))
        return output
