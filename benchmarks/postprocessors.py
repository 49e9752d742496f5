"""The post-processors that `worker_cost` and `stall` compare, with one interface.

Each does all the work between a token and an OpenAI delta.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, Protocol

from backedge.base.json_types import JsonObject
from backedge.engines.vllm.worker import build_parsers
from backedge.parsers.base import ParserNames, ParserRequest
from backedge.parsers.parser_lookup import Kind
from backedge.postprocess.chunk_scheduler import ScheduledChunk
from backedge.postprocess.delta_builder import aggregate_deltas
from backedge.postprocess.messages import Chunk, PostprocessParams
from backedge.postprocess.settings import MERGE_DELAYS, MergeDelays, PostprocessSettings
from backedge.tokenization.detokenizer import detokenizers
from backedge.worker.backend import InlineBackend, NewRequest
from dynamo.frontend.prepost import StreamingPostProcessor
from typing_extensions import override
from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionRequest
from vllm.reasoning import ReasoningParserManager
from vllm.sampling_params import RequestOutputKind, SamplingParams
from vllm.tokenizers import get_tokenizer
from vllm.tool_parsers import ToolParserManager
from vllm.v1.engine import EngineCoreOutput, EngineCoreRequest, FinishReason
from vllm.v1.engine.output_processor import OutputProcessor

from .answers import TINY_MODEL, Answer, Texts
from .load import Response

REASONING_PARSER = "qwen3"
TOKEN_S = 0.01  # between two tokens, on the clock that decides when deltas are due


class Stream(Protocol):
    """One answer in post-processing."""

    def feed(self, token_id: int, *, last: bool) -> None:
        """Take a token; the last one is the end-of-sequence token."""
        ...

    def texts(self) -> Texts:
        """Return the texts of all tokens fed so far."""
        ...


StartAnswer = Callable[[Answer], Stream]


class OurPostprocessor:
    """Backedge, as a worker runs it in its event loop.

    delays: how long deltas wait for more of their kind.
    """

    def __init__(
        self,
        tool_call_parser: str = "hermes",
        kind: Kind = "linear",
        delays: MergeDelays = MERGE_DELAYS["balanced"],
    ) -> None:
        tokenizer = get_tokenizer(str(TINY_MODEL))
        parsers = build_parsers(kind, ParserNames(tool_call_parser, REASONING_PARSER), tokenizer)
        self._backend = InlineBackend(
            detokenizers(tokenizer), parsers, PostprocessSettings(delays=delays)
        )

    def __call__(self, answer: Answer) -> OurStream:
        """Start post-processing an answer."""
        return OurStream(self._backend, build_params(answer))


def build_params(answer: Answer) -> PostprocessParams:
    """Return the parameters that a frontend would send with the answer's request."""
    tools = answer.request.get("tools") or []
    kwargs = answer.request.get("chat_template_kwargs") or {}
    choice = "auto" if tools else "none"
    request = ParserRequest(tools=tools, tool_choice=choice, chat_template_kwargs=kwargs)
    return PostprocessParams(
        response_id="benchmark", created=1, model="tiny", prompt_length=0, parser=request
    )


class OurStream(Stream):
    """One answer in a worker's event loop; its clock advances by `TOKEN_S` for each token."""

    def __init__(self, backend: InlineBackend, params: PostprocessParams) -> None:
        self._stream = backend.start(NewRequest(params, [], 0.0))
        self._now = 0.0
        self._taken: list[ScheduledChunk] = []

    @override
    def feed(self, token_id: int, *, last: bool) -> None:
        now = self._now = self._now + TOKEN_S
        stream = self._stream
        stream.add(Chunk(token_ids=[token_id], finish_reason="stop" if last else None), now)
        if stream.due <= now:
            self._taken += stream.take(now)

    @override
    def texts(self) -> Texts:
        delta = aggregate_deltas([delta for taken in self._taken for delta in taken.deltas]).delta
        arguments = "".join(call.function.arguments for call in delta.tool_calls)
        return Texts(delta.content or "", delta.reasoning_content or "", arguments)


class DynamoPostprocessor:
    """Dynamo's Python chat processor: vLLM's OutputProcessor, then its StreamingPostProcessor."""

    def __init__(self, tool_call_parser: str = "hermes") -> None:
        self._tokenizer = get_tokenizer(str(TINY_MODEL))
        self._outputs = OutputProcessor(self._tokenizer, log_stats=False)
        self._tool_parser: Any = ToolParserManager.get_tool_parser(tool_call_parser)
        self._reasoning_parser = ReasoningParserManager.get_reasoning_parser(REASONING_PARSER)
        self._ids = map(str, itertools.count())

    def __call__(self, answer: Answer) -> DynamoStream:
        """Start post-processing an answer."""
        fields = {
            "model": "tiny",
            "tool_choice": "auto" if answer.request.get("tools") else "none",
            "stream": True,
        }
        request = ChatCompletionRequest.model_validate({**fields, **answer.request})
        params = SamplingParams(max_tokens=1 << 20, output_kind=RequestOutputKind.DELTA)
        request_id = next(self._ids)
        # The reasoning parser looks at the prompt for the marker that opens it.
        prompt: list[int] = [0]
        self._outputs.add_request(
            EngineCoreRequest(
                request_id,
                prompt,
                None,
                params,
                None,
                0.0,
                None,
                None,
                None,
                external_req_id=request_id,
            ),
            None,
        )
        post = StreamingPostProcessor(
            tokenizer=self._tokenizer,
            request_for_sampling=request,
            sampling_params=params,
            prompt_token_ids=prompt,
            tool_parser=self._tool_parser(self._tokenizer, request.tools)
            if request.tools
            else None,
            reasoning_parser_class=self._reasoning_parser,
            chat_template_kwargs=answer.request.get("chat_template_kwargs") or {},
        )
        return DynamoStream(self._outputs, post, request_id)


class DynamoStream(Stream):
    """One answer in Dynamo's Python chat processor."""

    def __init__(
        self, outputs: OutputProcessor, post: StreamingPostProcessor, request_id: str
    ) -> None:
        self._outputs = outputs
        self._post = post
        self._request_id = request_id
        self._choices: list[JsonObject] = []

    @override
    def feed(self, token_id: int, *, last: bool) -> None:
        core_output = EngineCoreOutput(
            self._request_id, [token_id], finish_reason=FinishReason.STOP if last else None
        )
        for output in self._outputs.process_outputs([core_output]).request_outputs:
            choice = self._post.process_output(output.outputs[0])
            if choice:
                self._choices.append(choice)

    @override
    def texts(self) -> Texts:
        response = Response()
        response.add({"choices": self._choices})
        return response.texts
