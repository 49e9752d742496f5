"""Converts deltas for Dynamo's HTTP layer: OpenAI chunks with Dynamo's metrics."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeAlias

import msgspec

from ...base.json_types import JsonObject
from ...postprocess.messages import ChoiceDelta, Chunk, PostprocessedChunk, PostprocessParams, Usage
from ..request.chat_request import DISCARDED_TOKENS, MALFORMED_CALLS, PROMPT_LOGPROBS
from .inert_content import spell_inert

AnnotatedChunk: TypeAlias = JsonObject
"""A chat.completion.chunk, or only metrics, in the envelope of Dynamo's HTTP layer."""


class OpenAIChunkWriter:
    """Writes the chunks of one response.

    media: number of images, videos and audio clips in the request, by name of Dynamo's metric.
    prompt_token_ids: sent with the first chunk; none unless the client asks for them.
    extra_fields: the fields under `nvext` that the client asks for.
    read_again_by: Dynamo's tool parser that reads answers without a stream again, if any.
    """

    def __init__(
        self,
        params: PostprocessParams,
        media: dict[str, int],
        prompt_token_ids: list[int],
        extra_fields: Sequence[str] = (),
        read_again_by: str | None = None,
    ) -> None:
        self._params = params
        self._read_again_by = None if params.stream else read_again_by
        self._media = media
        self._prompt_token_ids = prompt_token_ids
        self._extra_fields = set(extra_fields)
        self._output_tokens = 0
        self._finished = 0
        self._choice_token_ids: dict[str, list[int]] = {}
        self._malformed_calls: list[JsonObject] = []
        self._discarded_tokens = 0

    def write(self, chunk: Chunk, processed: PostprocessedChunk) -> Iterator[AnnotatedChunk]:
        """Convert one chunk of the worker for the client.

        Exactly one item carries the metrics, since the HTTP layer adds them up.
        """
        self._output_tokens += len(chunk.token_ids)
        metrics = self._build_metrics(chunk, processed.usage)
        responses = [
            self._build_response([self._build_choice(delta)], delta) for delta in processed.deltas
        ]
        if chunk.prompt_logprobs is not None and responses:
            self._add_prompt_logprobs(responses[-1], chunk.prompt_logprobs)
        self._add_usage(responses, processed.usage)
        if not responses:
            text = msgspec.json.encode(metrics).decode()
            yield {"_dynamo_annotated": True, "event": "llm_metrics", "comment": [text]}
            return
        responses[0]["llm_metrics"] = metrics
        for response in responses:
            yield {"_dynamo_annotated": True, "data": response}

    def _build_metrics(self, chunk: Chunk, usage: Usage | None) -> dict[str, int]:
        metrics = {
            "input_tokens": self._params.prompt_length,
            "output_tokens": self._output_tokens,
            "chunk_tokens": len(chunk.token_ids),
            **self._media,
        }
        if usage is not None and usage.cached_tokens is not None:
            metrics["cached_tokens"] = usage.cached_tokens
        return metrics

    def _build_choice(self, delta: ChoiceDelta) -> JsonObject:
        fields: JsonObject = msgspec.to_builtins(delta.delta)
        choice: JsonObject = {
            "index": delta.index,
            "delta": fields,
            "finish_reason": delta.finish_reason,
        }
        if self._read_again_by and delta.delta.content and not delta.delta.tool_calls:
            fields["content"] = spell_inert(
                delta.delta.content,
                self._read_again_by,
                has_tools=self._params.parser.parses_tools,
            )
        if delta.logprobs is not None:
            choice["logprobs"] = {"content": msgspec.to_builtins(delta.logprobs)}
        return choice

    def _build_response(
        self, choices: list[JsonObject], delta: ChoiceDelta | None = None
    ) -> JsonObject:
        response = {
            "id": self._params.response_id,
            "object": "chat.completion.chunk",
            "created": self._params.created,
            "model": self._params.model,
            "choices": choices,
        }
        if delta is not None and (extension := self._build_extension(delta)):
            response["nvext"] = extension
        return response

    def _build_extension(self, delta: ChoiceDelta) -> JsonObject:
        """Return the fields that Dynamo's typed choices lack.

        If Dynamo aggregates a response, it joins the `completion_token_ids` of all choices into
        one list, so for n > 1 the tokens are keyed by choice. Of other keys Dynamo keeps the last
        value, so without a stream each value repeats those of the earlier choices.
        """
        extension: JsonObject = {}
        if self._prompt_token_ids:
            extension["prompt_token_ids"] = self._prompt_token_ids
            self._prompt_token_ids = []
        if delta.token_ids is not None:
            if self._params.n == 1:
                extension["completion_token_ids"] = delta.token_ids
            else:
                by_choice = {} if self._params.stream else self._choice_token_ids
                by_choice[str(delta.index)] = delta.token_ids
                extension["choice_token_ids"] = by_choice
        if delta.stop_reason is not None:
            extension["stop_reason"] = delta.stop_reason
        self._add_call_report(extension, delta)
        return extension

    def _add_call_report(self, extension: JsonObject, delta: ChoiceDelta) -> None:
        """Add the report with a choice's end; calls of several choices name theirs."""
        if delta.malformed_calls is not None and MALFORMED_CALLS in self._extra_fields:
            choice = {"choice": delta.index} if self._params.n > 1 else {}
            calls = [
                {"index": call.index, "reason": call.reason, **choice}
                for call in delta.malformed_calls
            ]
            self._malformed_calls = calls if self._params.stream else self._malformed_calls + calls
            extension[MALFORMED_CALLS] = self._malformed_calls
        if delta.discarded_tokens is not None and DISCARDED_TOKENS in self._extra_fields:
            before = 0 if self._params.stream else self._discarded_tokens
            self._discarded_tokens = before + delta.discarded_tokens
            extension[DISCARDED_TOKENS] = self._discarded_tokens

    def _add_prompt_logprobs(self, response: JsonObject, found: object) -> None:
        """Add them where Dynamo's own frontends do; workers send them with each choice's end."""
        if not self._params.stream:
            response[PROMPT_LOGPROBS] = found
        if PROMPT_LOGPROBS in self._extra_fields:
            response.setdefault("nvext", {})[PROMPT_LOGPROBS] = found
        self._extra_fields.discard(PROMPT_LOGPROBS)

    def _add_usage(self, responses: list[JsonObject], usage: Usage | None) -> None:
        """Add the usage as OpenAI does: to the answer, or as a stream's last chunk."""
        self._finished += sum(
            bool(choice["finish_reason"])
            for response in responses
            for choice in response["choices"]
        )
        if usage is None:
            return
        openai_usage = _build_openai_usage(usage)
        if self._params.continuous_usage_stats or not self._params.stream:
            for response in responses:
                response["usage"] = openai_usage
        if self._finished == self._params.n and self._params.stream and self._params.include_usage:
            responses.append({**self._build_response([]), "usage": openai_usage})


def _build_openai_usage(usage: Usage) -> JsonObject:
    openai_usage: JsonObject = {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "total_tokens": usage.prompt_tokens + usage.completion_tokens,
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
    }
    if usage.cached_tokens is not None:
        openai_usage["prompt_tokens_details"] = {"cached_tokens": usage.cached_tokens}
    return openai_usage
