"""The engine of the stand-in: it generates recorded outputs, a token per millisecond."""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from backedge.templates.chat_template import ModelPrompts
from backedge.testing.replay_worker.outputs import RecordedOutputs
from backedge.testing.transcripts import EXAMPLES, Recordings, read_transcripts
from prometheus_client import Counter, Gauge

from .arguments import DisaggregatedParams, PreprocessedInputs, SamplingParams

STEP_S = 0.001
TOKENS_PER_BLOCK = 32
# Served by a worker with --publish-metrics, as all metrics of that prefix.
RUNNING = Gauge("trtllm_standin_requests_running", "Requests that the stand-in is generating.")
GENERATED = Counter("trtllm_standin_generated_tokens", "Tokens that it has generated.")


class RequestError(RuntimeError): ...


class MetricsCollector:
    def __init__(self, labels: dict[str, str]) -> None:
        self.labels = labels

    def log_request_metrics_dict(self, metrics_dict: dict[str, float]) -> None: ...


@dataclass
class Logprob:
    logprob: float
    rank: int | None = None


@dataclass
class CompletionOutput:
    index: int
    text: str = ""
    token_ids: list[int] = field(default_factory=list)
    cumulative_logprob: float | None = None
    logprobs: list[dict[int, Logprob]] = field(default_factory=list)
    prompt_logprobs: list[dict[int, Logprob]] = field(default_factory=list)
    finish_reason: str | None = None
    stop_reason: int | str | None = None
    disaggregated_params: DisaggregatedParams | None = None
    request_perf_metrics: Any = None


@dataclass
class Step:
    """What one choice has generated in a step. token_ids: in the end all, without a stop token."""

    index: int
    token_ids: list[int]
    finish_reason: str | None = None
    stop_reason: int | None = None


class GenerationResult:
    """One request. It is generated whether or not anybody reads it, until it ends or is aborted."""

    request_ids = itertools.count(1)

    def __init__(self, choices: list[Iterator[Step]], params: SamplingParams) -> None:
        self.request_id = next(self.request_ids)
        self.outputs = [CompletionOutput(index) for index in range(len(choices))]
        self.prompt: str | None = None
        self.prompt_token_ids: list[int] = []
        self.finished = False
        self.cached_tokens = 0
        self.metrics_dict: dict[str, float] = {}
        self.disaggregated_params: DisaggregatedParams | None = None
        self._params = params
        self._aborted = False
        self._queue: asyncio.Queue[tuple[Step, bool]] = asyncio.Queue()
        self._task = asyncio.get_running_loop().create_task(self._generate(choices))

    def abort(self) -> None:
        self._aborted = True

    def aborted(self) -> bool:
        return self._aborted

    async def _generate(self, choices: list[Iterator[Step]]) -> None:
        RUNNING.inc()
        open_choices = dict(enumerate(choices))
        while open_choices and not self._aborted:
            await asyncio.sleep(STEP_S)
            for index, choice in tuple(open_choices.items()):
                step = next(choice)
                GENERATED.inc()
                if step.finish_reason is not None:
                    del open_choices[index]
                self._queue.put_nowait((step, not open_choices))
        for index in open_choices:
            self._queue.put_nowait((Step(index, [], "cancelled"), True))
        RUNNING.dec()

    def __aiter__(self) -> GenerationResult:
        return self

    async def __anext__(self) -> GenerationResult:
        if self.finished:
            raise StopAsyncIteration
        step, self.finished = await self._queue.get()
        output = self.outputs[step.index]
        output.disaggregated_params = self.disaggregated_params
        if step.finish_reason != "cancelled":
            output.token_ids = step.token_ids
            if self._params.logprobs is not None:
                output.logprobs = [
                    describe(token_id, self._params.logprobs) for token_id in step.token_ids
                ]
        output.finish_reason, output.stop_reason = step.finish_reason, step.stop_reason
        return self


def describe(token_id: int, count: int) -> dict[int, Logprob]:
    """Return log probabilities of a token and of `count` - 1 others."""
    return {token_id + rank: Logprob(-0.1 * (rank + 1), rank + 1) for rank in range(count)}


class TransformersTokenizer:
    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer


def tokenizer_factory(obj: str, **kwargs: Any) -> TransformersTokenizer:
    from transformers import AutoTokenizer

    return TransformersTokenizer(AutoTokenizer.from_pretrained(obj, **kwargs))


class BaseLLM:
    def __init__(self, model: str, **kwargs: Any) -> None:
        files = ModelPrompts(model)
        self.args = SimpleNamespace(model=model, **kwargs)
        self.tokenizer = None
        self._end_id = files.eos_token_ids[0]
        folder = Path(os.environ.get("STANDIN_TRANSCRIPTS", EXAMPLES / "transcripts"))
        self._recordings = RecordedOutputs(Recordings(files, read_transcripts(folder)))

    def generate_async(
        self,
        inputs: Any,
        sampling_params: SamplingParams | None = None,
        lora_request: Any = None,
        prompt_adapter_request: Any = None,
        streaming: bool = False,
        disaggregated_params: DisaggregatedParams | None = None,
        trace_headers: Any = None,
        scheduling_params: Any = None,
        cache_salt: str | None = None,
        priority: float = 0.5,
    ) -> GenerationResult:
        params = sampling_params or SamplingParams()
        token_ids = inputs.prompt_token_ids if isinstance(inputs, PreprocessedInputs) else inputs
        limit = self.args.max_seq_len
        if limit is not None and len(token_ids) + params.max_tokens > limit:
            raise ValueError(
                f"The sum of prompt length ({len(token_ids)}) and max_tokens "
                f"({params.max_tokens}) should not exceed max_seq_len ({limit})"
            )
        whole = self._find(list(token_ids), params)
        disaggregation = disaggregated_params or DisaggregatedParams()
        sent = disaggregation.first_gen_tokens or []
        if disaggregation.request_type == "generation_only" and whole[: len(sent)] != sent:
            raise ValueError(f"the first tokens {sent} are not of this prompt")
        choices = [self._generate(index, whole, params, len(sent)) for index in range(params.n)]
        result = GenerationResult(choices, params)
        if disaggregation.request_type == "context_only":
            result.disaggregated_params = DisaggregatedParams(
                request_type="context_only",
                first_gen_tokens=whole[:1],
                ctx_request_id=disaggregation.disagg_request_id,
                opaque_state=b"the KV cache",
                disagg_request_id=disaggregation.disagg_request_id,
            )
        return result

    def _find(self, token_ids: list[int], params: SamplingParams) -> list[int]:
        guided = params.guided_decoding
        given = {} if guided is None else {"json": guided.json, "regex": guided.regex}
        options = {name: value for name, value in given.items() if value is not None}
        request = {"token_ids": token_ids, "sampling_options": {"guided_decoding": options}}
        try:
            return self._recordings.find(request)
        except Exception as error:
            raise ValueError(str(error)) from error

    def _generate(
        self, index: int, whole: list[int], params: SamplingParams, sent: int
    ) -> Iterator[Step]:
        """Yield the steps of a choice; it begins again after the end, where that is ignored."""
        stops = set() if params.ignore_eos else {*(params.stop_token_ids or ())}
        ends = set() if params.ignore_eos else {self._end_id}
        generated = whole[:sent]
        for token_id in itertools.islice(itertools.cycle(whole), sent, None):
            long_enough = len(generated) + 1 >= (params.min_tokens or 0)
            if token_id in stops - ends and long_enough:
                # As the original: a stop token, unlike the end of sequence, is not in the output.
                yield Step(index, list(generated), "stop", token_id)
                return
            generated.append(token_id)
            if token_id in ends and long_enough:
                yield Step(index, list(generated), "stop")
                return
            if len(generated) >= params.max_tokens:
                yield Step(index, list(generated), "length")
                return
            yield Step(index, list(generated))

    async def get_stats_async(self, timeout: float | None = 2) -> AsyncIterator[dict[str, Any]]:
        nothing: tuple[dict[str, Any], ...] = ()
        for stats in nothing:
            yield stats

    async def get_kv_cache_events_async(
        self, timeout: float | None = 2
    ) -> AsyncIterator[dict[str, Any]]:
        nothing: tuple[dict[str, Any], ...] = ()
        for event in nothing:
            yield event

    def get_kv_cache_capacity(self) -> dict[str, int]:
        return {"maxNumBlocks": 4096, "tokensPerBlock": TOKENS_PER_BLOCK}

    def shutdown(self) -> None: ...

    def _check_health(self) -> bool:
        return True


class LLM(BaseLLM): ...


class MultimodalEncoder(BaseLLM): ...
