"""Deltas into what Dynamo's HTTP layer takes: OpenAI chunks with Dynamo's metrics."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from ...postprocess.messages import ChoiceDelta, Chunk, PostprocessedChunk, PostprocessParams, Usage

AnnotatedChunk = dict[str, Any]


class OpenAIChunkWriter:
    """Writes the chunks of one response.

    media: how many images, videos and audio clips the request has, under the
        names that Dynamo's metrics give them.
    """

    def __init__(self, params: PostprocessParams, media: dict[str, int]) -> None:
        self._params = params
        self._media = media
        self._output_tokens = 0
        self._finished = 0
        self._choice_token_ids: dict[str, list[int]] = {}

    def write(self, chunk: Chunk, post: PostprocessedChunk) -> Iterator[AnnotatedChunk]:
        """Yield the envelopes of one chunk of the worker.

        The HTTP layer adds up the metrics of all envelopes, so exactly one
        carries them.
        """
        self._output_tokens += len(chunk.token_ids)
        metrics = self._metrics(chunk, post.usage)
        responses = [self._response([self._choice(delta)], delta) for delta in post.deltas]
        self._add_usage(responses, post.usage)
        if not responses:
            text = msgspec.json.encode(metrics).decode()
            yield {"_dynamo_annotated": True, "event": "llm_metrics", "comment": [text]}
            return
        responses[0]["llm_metrics"] = metrics
        for response in responses:
            yield {"_dynamo_annotated": True, "data": response}

    def _metrics(self, chunk: Chunk, usage: Usage | None) -> dict[str, int]:
        metrics = {
            "input_tokens": self._params.prompt_length,
            "output_tokens": self._output_tokens,
            "chunk_tokens": len(chunk.token_ids),
            **self._media,
        }
        if usage is not None and usage.cached_tokens is not None:
            metrics["cached_tokens"] = usage.cached_tokens
        return metrics

    def _choice(self, delta: ChoiceDelta) -> dict[str, Any]:
        choice = {
            "index": delta.index,
            "delta": msgspec.to_builtins(delta.delta),
            "finish_reason": delta.finish_reason,
        }
        if delta.logprobs is not None:
            choice["logprobs"] = {"content": msgspec.to_builtins(delta.logprobs)}
        return choice

    def _response(
        self, choices: list[dict[str, Any]], delta: ChoiceDelta | None = None
    ) -> dict[str, Any]:
        response = {
            "id": self._params.response_id,
            "object": "chat.completion.chunk",
            "created": self._params.created,
            "model": self._params.model,
            "choices": choices,
        }
        if delta is not None and (extension := self._extension(delta)):
            response["nvext"] = extension
        return response

    def _extension(self, delta: ChoiceDelta) -> dict[str, Any]:
        """Return what has no place in Dynamo's typed choices.

        Folding a response, Dynamo joins `completion_token_ids` of all choices into
        one list, so with n > 1 they are keyed by choice; and it keeps the last value
        of any other key, so without a stream each holds those before it.
        """
        extension: dict[str, Any] = {}
        if delta.token_ids is not None:
            if self._params.n == 1:
                extension["completion_token_ids"] = delta.token_ids
            else:
                shown = {} if self._params.stream else self._choice_token_ids
                shown[str(delta.index)] = delta.token_ids
                extension["choice_token_ids"] = shown
        if delta.stop_reason is not None:
            extension["stop_reason"] = delta.stop_reason
        return extension

    def _add_usage(self, responses: list[dict[str, Any]], usage: Usage | None) -> None:
        """Put the usage where OpenAI has it: with the answer, or in a chunk of its own behind a stream."""
        self._finished += sum(
            bool(choice["finish_reason"])
            for response in responses
            for choice in response["choices"]
        )
        if usage is None:
            return
        shown = _openai_usage(usage)
        if self._params.continuous_usage_stats or not self._params.stream:
            for response in responses:
                response["usage"] = shown
        if self._finished == self._params.n and self._params.stream and self._params.include_usage:
            responses.append({**self._response([]), "usage": shown})


def _openai_usage(usage: Usage) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "total_tokens": usage.prompt_tokens + usage.completion_tokens,
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
    }
    if usage.cached_tokens is not None:
        shown["prompt_tokens_details"] = {"cached_tokens": usage.cached_tokens}
    return shown
