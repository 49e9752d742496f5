"""One request on its way through a back end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import msgspec

from ..tokenization.model_files import GenerationConfig
from .completion import Completion
from .constraints import Grammar
from .contracts import GenerationOptions, GenerationResult, RowError, RowErrorKind

# Where neither the options nor the model's generation_config.json have a value.
DEFAULTS = {"temperature": 1.0, "top_p": 1.0, "repetition_penalty": 1.0}


class RowFailure(Exception):  # noqa: N818 - it carries a row's error and never leaves the engine
    """A row cannot be generated. error: what its result says."""

    def __init__(self, kind: RowErrorKind, message: str) -> None:
        super().__init__(message)
        self.error = RowError(kind, message)


class Sampling(msgspec.Struct, frozen=True, kw_only=True):
    """How an engine samples; every value is set, so that no engine adds a default of its own.

    top_k: 0 for all tokens. seed: None for any.
    """

    temperature: float
    top_p: float
    top_k: int
    min_p: float
    repetition_penalty: float
    seed: int | None
    n: int
    logprobs: int | None


def resolve_sampling(options: GenerationOptions, config: GenerationConfig) -> Sampling:
    """Return the options, then the model's values, then the defaults."""

    def first(name: str) -> float:
        for value in (getattr(options, name), getattr(config, name)):
            if value is not None:
                return float(value)
        return DEFAULTS[name]

    top_k = options.top_k if options.top_k is not None else config.top_k
    return Sampling(
        temperature=first("temperature"),
        top_p=first("top_p"),
        top_k=max(top_k or 0, 0),
        min_p=config.min_p or 0.0,
        repetition_penalty=first("repetition_penalty"),
        seed=options.seed,
        n=options.n,
        logprobs=options.logprobs,
    )


@dataclass
class Prompt:
    """A prompt as engines take it.

    token_ids: of a row with an image, with as many image tokens as the model sees.
    text, image: for engines that put both together themselves.
    inputs: tensors that a processor has made of an image, by the model's argument.
    """

    token_ids: list[int]
    text: str | None = None
    image: Any = None
    inputs: dict[str, Any] = field(default_factory=dict)


_NOT_SAMPLED = resolve_sampling(GenerationOptions(), GenerationConfig())


@dataclass
class Row:
    """A request that can be generated.

    index: its position in the batch. max_new_tokens: None only where the context is unknown.
    completions: one for each choice, made by `build_completions`; a back end feeds them.
    error: of a row that could not be prepared, or has failed in the back end.
    grammar: what the answer is held to; None for nothing.
    """

    index: int
    request_id: str
    prompt: Prompt
    sampling: Sampling
    max_new_tokens: int | None
    stop_token_ids: Sequence[int]
    build_completions: Callable[[], list[Completion]]
    error: RowError | None = None
    grammar: Grammar | None = None

    def __post_init__(self) -> None:
        self.restart()

    @classmethod
    def failed(cls, index: int, request_id: str, error: RowError) -> Self:
        """Return a row that could not be prepared."""
        return cls(index, request_id, Prompt([]), _NOT_SAMPLED, None, (), list, error)

    def restart(self) -> None:
        """Forget what was generated."""
        self.completions = self.build_completions()

    @property
    def finished(self) -> bool:
        """Whether all choices have ended."""
        return all(completion.finished for completion in self.completions)

    @property
    def needs_steps(self) -> bool:
        """Whether its text may end it before the engine does."""
        return self.completions[0].needs_steps

    def result(self, backend: str) -> GenerationResult:
        """Return the result of the row, which has finished or failed."""
        errors = [self.error, *(completion.error for completion in self.completions)]
        error = next((found for found in errors if found is not None), None)
        return GenerationResult(
            id=self.request_id,
            index=self.index,
            backend=backend,
            prompt_tokens=len(self.prompt.token_ids),
            choices=[] if error else [completion.result() for completion in self.completions],
            error=error,
        )
