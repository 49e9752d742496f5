"""Hooks into a batch while transformers generates it: stops, logprobs, penalties, grammars."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from typing import Any

import torch

from ...base.errors import RequestError
from ...base.limits import MAX_GRAMMARS_BYTES
from ...guided.call_policy import to_tag_format
from ...guided.client_schemas import find_keyword
from ...offline.completion import Completion, TokenLogprobs
from ...offline.plugins.base import Plugin, TokenGuard
from ...offline.rows import Grammar, RowFailure, Sampling
from ...postprocess.messages import EngineLogprob


class StepFeeder:
    """A stopping criterion that feeds each step's tokens to their completions.

    completions: one per row of the batch. prompt_length: padded, in tokens.
    alternatives: number of logprobs per token; None for no logprobs.
    plugins: may have further criteria.
    recorder: of the logprobs, a logits processor; None for no logprobs.
    """

    def __init__(
        self,
        completions: Sequence[Completion],
        prompt_length: int,
        alternatives: int | None,
        plugins: Sequence[Plugin] = (),
    ) -> None:
        self._completions = completions
        self._criteria = [
            (plugin.name, criterion)
            for plugin in plugins
            if (criterion := plugin.stopping_criterion("hf")) is not None
        ]
        self._taken = prompt_length
        self.recorder = None if alternatives is None else LogprobRecorder(alternatives)

    @property
    def takes_steps(self) -> bool:
        """Whether it is needed for answers that no text ends."""
        return self.recorder is not None or bool(self._criteria)

    def __call__(self, input_ids: torch.Tensor, scores: object, **_: object) -> torch.Tensor:
        """Return which rows have ended, shape (rows,)."""
        new = input_ids[:, self._taken :]
        self._taken = input_ids.shape[1]
        found = self.recorder.take(new[:, -1]) if self.recorder is not None else None
        ends = {
            name: torch.as_tensor(criterion(input_ids, scores)).expand(len(new)).tolist()
            for name, criterion in self._criteria
        }
        for row, (completion, token_ids) in enumerate(
            zip(self._completions, new.tolist(), strict=True)
        ):
            if not completion.finished:
                stopped_by = next((name for name, ended in ends.items() if ended[row]), None)
                completion.feed(token_ids, found[row] if found else None, stopped_by=stopped_by)
        ended = [completion.finished for completion in self._completions]
        return torch.tensor(ended, device=input_ids.device)


class LogprobRecorder:
    """A logits processor that keeps one step's logits before they are modified.

    alternatives: number per token; 0 for only its own logprob.
    """

    def __init__(self, alternatives: int) -> None:
        self._alternatives = alternatives
        self._logprobs: torch.Tensor | None = None

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        """Keep the logits, shape (rows, vocabulary), and return them."""
        self._logprobs = torch.log_softmax(scores.float(), dim=-1)
        return scores

    def take(self, token_ids: torch.Tensor) -> list[TokenLogprobs]:
        """Return the logprobs of the chosen tokens, shape (rows,)."""
        assert self._logprobs is not None, "no logits"  # noqa: S101 - narrows the type
        own = self._logprobs.gather(1, token_ids[:, None])
        ranks = (self._logprobs > own).sum(dim=1) + 1
        values, indices = self._logprobs.topk(self._alternatives, dim=1)
        return [
            _build_logprobs(*parts)
            for parts in zip(
                token_ids.tolist(),
                own[:, 0].tolist(),
                ranks.tolist(),
                indices.tolist(),
                values.tolist(),
                strict=True,
            )
        ]


def _build_logprobs(
    token_id: int, own: float, rank: int, top_ids: list[int], top: list[float]
) -> TokenLogprobs:
    alternatives = [
        EngineLogprob(other, number, value)
        for number, (other, value) in enumerate(zip(top_ids, top, strict=True), 1)
    ]
    if token_id not in top_ids:
        alternatives.append(EngineLogprob(token_id, rank, own))
    return TokenLogprobs([own], [alternatives])


class Penalties:
    """A logits processor for biases, and for penalties of tokens of prompt and answer.

    The ones in transformers also count padding, and therefore the end-of-sequence token if it
    is used for padding.

    mask: of the padded prompts, shape (rows, tokens).
    """

    def __init__(self, sampling: Sampling, mask: torch.Tensor) -> None:
        self._sampling = sampling
        self._mask = mask.float()

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        """Return the changed logits, shape (rows, vocabulary)."""
        changed, sampling, length = scores.float().clone(), self._sampling, self._mask.shape[1]
        if sampling.logit_bias:
            token_ids, biases = zip(*sampling.logit_bias, strict=True)
            changed[:, list(token_ids)] += torch.tensor(biases, device=scores.device)
        answer = input_ids[:, length:]
        counts = torch.zeros_like(changed)
        counts.scatter_add_(1, answer, torch.ones_like(answer, dtype=changed.dtype))
        seen = counts.scatter_add(1, input_ids[:, :length], self._mask) > 0
        penalty = sampling.repetition_penalty
        penalized = torch.where(changed < 0, changed * penalty, changed / penalty)
        changed = torch.where(seen, penalized, changed)
        changed -= sampling.frequency_penalty * counts + sampling.presence_penalty * (counts > 0)
        return changed.to(scores.dtype)


def build_penalties(sampling: Sampling, mask: torch.Tensor, stops: list[int]) -> list[Any]:
    """Return the logits processors for biases, penalties and the least number of tokens.

    mask: as for `Penalties`. stops: tokens that end the answer.
    """
    import transformers

    found: list[Any] = []
    penalties = sampling.presence_penalty, sampling.frequency_penalty
    if sampling.logit_bias or any(penalties) or sampling.repetition_penalty != 1:
        found.append(Penalties(sampling, mask))
    if sampling.min_tokens:
        length = mask.shape[1]
        found.append(
            transformers.MinNewTokensLengthLogitsProcessor(length, sampling.min_tokens, stops)
        )
    return found


# Subtracted from the logits of tokens to avoid. It is finite because a grammar may allow no other.
AVOIDED = 10_000.0


class Guards:
    """A logits processor that avoids the tokens which plugins name.

    guards: of each row of the batch. prompt_length: padded, in tokens.
    """

    def __init__(self, guards: Sequence[Sequence[TokenGuard | None]], prompt_length: int) -> None:
        self._guards = guards
        self._taken = prompt_length

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        """Return the changed logits, shape (rows, vocabulary)."""
        changed, new = scores.clone(), input_ids[:, self._taken :].tolist()
        self._taken = input_ids.shape[1]
        for row, guards in enumerate(self._guards):
            for guard in filter(None, guards):
                changed[row, list(guard.feed(new[row]))] -= AVOIDED
        return changed


class SeededSampler:
    """A logits processor that draws each row's token with a generator of the row's own.

    So a row's answer does not depend on the others of its batch. seeds: of the rows.
    """

    def __init__(self, seeds: Sequence[int]) -> None:
        self._generators = [torch.Generator().manual_seed(seed) for seed in seeds]

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        """Return logits, shape (rows, vocabulary), that leave one token to each row."""
        # In float32, a GPU's sums differ from run to run, and rare tokens would be missed.
        sums = scores.double().softmax(-1).cumsum(-1)
        drawn = [1 - torch.rand((), generator=generator).item() for generator in self._generators]
        limits = torch.tensor(drawn, device=scores.device)[:, None] * sums[:, -1:]
        chosen = (sums >= limits).int().argmax(-1, keepdim=True)
        return torch.full_like(scores, float("-inf")).scatter_(1, chosen, 0.0)


def build_samplers(sampling: Sampling, seeds: Sequence[int]) -> list[Any]:
    """Return the logits processors that sample the answers of rows with these seeds."""
    import transformers

    if not seeds or not sampling.temperature:
        return []
    samplers: list[Any] = [transformers.TemperatureLogitsWarper(sampling.temperature)]
    if sampling.top_k:
        samplers.append(transformers.TopKLogitsWarper(sampling.top_k))
    if sampling.top_p < 1:
        samplers.append(transformers.TopPLogitsWarper(sampling.top_p))
    if sampling.min_p:
        samplers.append(transformers.MinPLogitsWarper(sampling.min_p))
    return [*samplers, SeededSampler(seeds)]


def has_lost_device(error: BaseException) -> bool:
    """Whether no later row could be generated: the device is in an error state."""
    return isinstance(error, RuntimeError) and "CUDA error" in str(error)


def is_out_of_memory(error: BaseException) -> bool:
    """Whether torch ran out of memory, on a device or on the host."""
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    return isinstance(error, RuntimeError) and "can't allocate memory" in str(error)


# Keywords that xgrammar 0.2 ignores, so that answers might violate them.
NOT_HELD = frozenset(
    "multipleOf uniqueItems contains minContains maxContains not if then else "
    "dependentRequired dependentSchemas".split()
)


class Grammars:
    """Compiles the grammars of rows for one model.

    tokenizer: of transformers. vocabulary_size: of the model's logits.
    """

    def __init__(self, tokenizer: Any, vocabulary_size: int) -> None:
        import xgrammar

        info = xgrammar.TokenizerInfo.from_huggingface(tokenizer, vocab_size=vocabulary_size)
        self._compiler = xgrammar.GrammarCompiler(info, cache_limit_bytes=MAX_GRAMMARS_BYTES)

    def compile(self, grammar: Grammar) -> Any:
        """Compile a row's grammar with xgrammar. Raises `RowFailure` if that fails."""
        word = find_keyword(grammar.answer.get("json"), NOT_HELD)
        if word is not None:
            raise RowFailure(
                "request",
                f"the schema uses {word!r}, which xgrammar cannot enforce; leave it "
                "out, and check the answers.",
            )
        try:
            tag = {"type": "structural_tag", "format": to_tag_format(grammar.guided)}
            return self._compiler.compile_structural_tag(json.dumps(tag))
        except (RuntimeError, ValueError, TypeError, RequestError) as error:
            raise RowFailure("request", f"xgrammar rejects the grammar: {error}") from error


class GrammarMask:
    """A logits processor that allows only the tokens of the grammars.

    compiled: of each row of the batch, shape (rows,); None for a row without a grammar.
    prompt_length: padded, in tokens. stop_token_ids: end a complete answer.
    """

    def __init__(
        self, compiled: Sequence[Any], prompt_length: int, stop_token_ids: Collection[int]
    ) -> None:
        import xgrammar

        self._apply = xgrammar.apply_token_bitmask_inplace
        self._matchers = {
            row: xgrammar.GrammarMatcher(grammar, override_stop_tokens=list(stop_token_ids) or None)
            for row, grammar in enumerate(compiled)
            if grammar is not None
        }
        [info, *_] = [grammar.tokenizer_info for grammar in compiled if grammar is not None]
        self._mask = xgrammar.allocate_token_bitmask(len(compiled), info.vocab_size)
        self._taken = prompt_length

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        """Return the logits, shape (rows, vocabulary), with those that are not allowed at -inf."""
        new = input_ids[:, self._taken :].tolist()
        self._taken = input_ids.shape[1]
        for row in list(self._matchers):
            self._advance(row, new[row])
        return self.apply(input_ids, scores)

    def apply(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        """Apply the mask of the last call again: other processors may have changed the logits."""
        if self._matchers:
            self._apply(scores, self._mask.to(scores.device))
        return scores

    def _advance(self, row: int, token_ids: Sequence[int]) -> None:
        """Accept a row's new tokens and compute which may follow; ended rows may continue."""
        matcher = self._matchers[row]
        taken = all(matcher.accept_token(token_id) for token_id in token_ids)
        if taken and not matcher.is_terminated():
            matcher.fill_next_token_bitmask(self._mask, row)
        else:
            # Further tokens are padding, or follow a stop string.
            self._mask[row] = -1
            del self._matchers[row]
