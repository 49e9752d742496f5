"""Continuous batching of transformers, with sampling of each request's own.

transformers' own batches share all settings except temperature, `top_k` and `top_p`. So they are
greedy here, and one logits processor leaves to each sampled answer the token that it has drawn.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec
import torch
from transformers import (
    ContinuousBatchingConfig,
    GenerationConfig,
    LogitsProcessorList,
    PreTrainedModel,
)
from transformers.generation.continuous_batching.cb_logits_processors import (
    ContinuousBatchingLogitsProcessor,
    ContinuousBatchingLogitsProcessorList,
)
from transformers.generation.continuous_batching.requests import (
    FutureRequestState,
    GenerationOutput,
)

from ...base.errors import SetupError
from ...offline.completion import TokenLogprobs
from ...offline.rows import Sampling
from .offline_hooks import GrammarMask, LogprobRecorder, build_penalties, build_samplers

# One for the prompt, one that is left free.
MIN_BLOCKS = 2

Processor = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
"""Takes token ids, shape (1, tokens), and logits, shape (1, vocabulary); returns the logits."""


class Limits(msgspec.Struct, frozen=True):
    """Limits of the batches; None for transformers' own, which fill a GPU's memory.

    block_size: in tokens. blocks: of the cache. requests, tokens: in one step.
    """

    block_size: int | None = None
    blocks: int | None = None
    requests: int | None = None
    tokens: int | None = None

    def complete(self, device: str) -> Limits:
        """Return the limits for a device of this type."""
        if device != "cpu":
            return self
        # transformers would fill the host's memory, most of it with a mask of tokens by tokens.
        return Limits(
            self.block_size or CPU_LIMITS.block_size,
            self.blocks or CPU_LIMITS.blocks,
            self.requests or CPU_LIMITS.requests,
            self.tokens or CPU_LIMITS.tokens,
        )


# A cache of 32,768 tokens.
CPU_LIMITS = Limits(block_size=32, blocks=1024, requests=64, tokens=512)


class Choice:
    """One answer during its generation.

    stops: the tokens that end it. grammar: compiled; None for none. seed: of this choice alone.
    logprobs: one entry per token so far, if they are asked for.
    """

    def __init__(
        self,
        prompt: Sequence[int],
        sampling: Sampling,
        stops: Sequence[int],
        grammar: object = None,
        seed: int | None = None,
    ) -> None:
        self.logprobs: list[TokenLogprobs] = []
        # Room for twice as many, so that a token costs the same at any length.
        self._token_ids, self._length = _grow(torch.tensor(prompt)), len(prompt)
        self._recorder: LogprobRecorder | None = None
        length = len(prompt)
        masks = [] if grammar is None else [GrammarMask([grammar], length, stops)]
        processors: list[Processor] = list(masks)
        # Logprobs are those of the allowed tokens, before penalties, as in vLLM.
        if sampling.logprobs is not None:
            self._recorder = LogprobRecorder(sampling.logprobs)
            processors.append(self._recorder)
        processors += build_penalties(sampling, torch.ones(1, length), list(stops))
        processors += [mask.apply for mask in masks]
        if sampling.temperature:
            drawn = int(torch.seed()) if seed is None else seed
            processors += build_samplers(sampling, [drawn])
        self._processors = processors

    def __deepcopy__(self, memo: object) -> Choice:
        """Return the same object: transformers copies the settings of a request that it restarts.

        It does so where the cache is full, and such a request goes on with its next token.
        """
        return self

    def process(self, scores: torch.Tensor) -> torch.Tensor:
        """Return the changed logits of the next token, shape (1, vocabulary)."""
        if not self._processors:
            return scores
        # On the logits' device, as penalties count with both.
        self._token_ids = self._token_ids.to(scores.device)
        input_ids = self._token_ids[None, : self._length]
        for processor in self._processors:
            scores = processor(input_ids, scores)
        return scores

    def take(self, token_id: int) -> None:
        """Continue after the next token."""
        if self._length == len(self._token_ids):
            self._token_ids = _grow(self._token_ids)
        self._token_ids[self._length] = token_id
        self._length += 1
        if self._recorder is not None:
            self.logprobs += self._recorder.take(torch.tensor([token_id]))


def _grow(token_ids: torch.Tensor) -> torch.Tensor:
    """Return a tensor of twice the length that begins with `token_ids`, shape (tokens,)."""
    return torch.cat([token_ids, torch.zeros_like(token_ids)])


class ChoiceProcessor(ContinuousBatchingLogitsProcessor):
    """A logits processor of a whole batch, which knows the `Choice` of each row."""

    supported_kwargs = {"choice": Choice}  # noqa: RUF012 - transformers declares it so
    ignored_kwargs = ()

    def __init__(self) -> None:
        self._choices: list[Choice] = []

    def fill_defaults(self, int32_tensor: torch.Tensor) -> None:
        """Fill the rows that have no request."""
        int32_tensor.zero_()

    def prepare_tensor_args(
        self, requests_with_new_token: list[FutureRequestState]
    ) -> torch.Tensor:
        """Keep the rows' choices for the next call."""
        found = [request.state.logit_processor_kwargs for request in requests_with_new_token]
        self._choices = [kwargs["choice"] for kwargs in found]
        return torch.zeros(len(found), dtype=torch.int32)

    def __call__(self, scores: torch.Tensor, tensor_arg: torch.Tensor) -> torch.Tensor:
        """Return the logits, shape (rows, vocabulary), whose maxima are the next tokens."""
        rows = [choice.process(scores[row : row + 1]) for row, choice in enumerate(self._choices)]
        # Further rows stand for prompts of which only a part has been read.
        changed = torch.cat([*rows, scores[len(rows) :]])
        token_ids = changed[: len(rows)].argmax(-1).tolist()
        for choice, token_id in zip(self._choices, token_ids, strict=True):
            choice.take(token_id)
        return changed


class Batcher:
    """Generates any number of requests together. model: of transformers, loaded.

    block_size, blocks: of the cache. requests: in one step.
    Raises `SetupError` if the limits do not fit into memory.
    """

    def __init__(self, model: PreTrainedModel, limits: Limits) -> None:
        limits = limits.complete(model.device.type)
        # Our processor works on the host, after each step.
        config = ContinuousBatchingConfig(
            num_blocks=limits.blocks,
            max_batch_tokens=limits.tokens,
            max_requests_per_batch=limits.requests,
            use_async_batching=False,
            use_cuda_graph=False,
        )
        if limits.block_size is not None:
            config.block_size = limits.block_size
        generation = GenerationConfig(do_sample=False, eos_token_id=-1, pad_token_id=0)
        self._manager = model.init_continuous_batching(generation, config)
        processors = ContinuousBatchingLogitsProcessorList(LogitsProcessorList([ChoiceProcessor()]))
        processors.tensors_required = 1
        self._manager.logit_processor = processors
        try:
            self._manager.warmup()
        except MemoryError as error:
            raise SetupError(
                f"the cache does not fit into memory ({error}); lower --num-blocks or "
                "--max-num-batched-tokens."
            ) from error
        found = self._manager.continuous_batching_config
        self.block_size: int = found.block_size
        self.blocks: int = found.num_blocks
        self.requests: int = found.max_requests_per_batch
        if self.blocks < MIN_BLOCKS:
            raise SetupError(
                f"the cache has {self.blocks} blocks; raise --num-blocks, or free memory."
            )
        self._manager.start()

    @property
    def runs(self) -> bool:
        """Whether requests can still be generated."""
        return bool(self._manager.is_running())

    def add(
        self,
        request_id: str,
        prompt: Sequence[int],
        choice: Choice,
        *,
        stops: Sequence[int],
        max_tokens: int,
        on_output: Callable[[GenerationOutput], None],
    ) -> bool:
        """Start a request; return whether it was taken. Runs in an event loop.

        on_output: called in this loop with each of transformers' outputs.
        """
        self._manager.register_result_handler(request_id, on_output)
        added = self._manager.add_request(
            list(prompt),
            request_id=request_id,
            max_new_tokens=max_tokens,
            streaming=True,
            eos_token_id=list(stops) or -1,
            choice=choice,
        )
        return added is not None

    def cancel(self, request_id: str) -> None:
        """End a request, whose further outputs are dropped."""
        self._manager.cancel_request(request_id)
        self._manager.output_router.result_handlers.pop(request_id, None)
        # Outputs that have no handler would stay here for good.
        while self._manager.get_result(timeout=0) is not None:
            pass

    def stop(self) -> None:
        """End all requests, and wait for the last step."""
        self._manager.stop(hard_stop=True)
