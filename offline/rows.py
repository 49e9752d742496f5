"""One request during its generation by a back end."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self

import msgspec

from ..base.errors import BackedgeError, shorten
from ..base.json_types import JsonObject
from ..base.limits import MAX_ROW_IMAGES
from ..parsers.format import Format
from ..tokenization.errors import describe_error
from ..tokenization.model_files import SAMPLING_DEFAULTS, GenerationConfig
from .completion import Completion
from .contracts import GenerationOptions
from .results import GeneratedChoice, GenerationResult, RowError, RowErrorKind


class RowFailure(Exception):  # noqa: N818 - it carries a row's error and never leaves the engine
    """A row cannot be generated. error: for its result."""

    def __init__(self, kind: RowErrorKind, message: str) -> None:
        super().__init__(message)
        self.error = RowError(kind, message)


def check_image_count(count: int) -> None:
    """Raise `RowFailure` if a row has too many images."""
    if count > MAX_ROW_IMAGES:
        found = f"the row has {count} images; at most {MAX_ROW_IMAGES} are allowed"
        raise RowFailure("image", f"{found}. Split the row.")


def find_row_error(error: Exception, kind: RowErrorKind, owner: str) -> RowError:
    """Return the error of a row from anything that was raised for it.

    kind, owner: for an exception that is not a `RowFailure`; `owner` raised it.
    """
    if isinstance(error, RowFailure):
        return error.error
    if isinstance(error, BackedgeError):
        return RowError("request", str(error))
    return RowError(kind, f"{owner} rejects the row: {shorten(describe_error(error))}")


class Sampling(msgspec.Struct, frozen=True, kw_only=True):
    """An engine's sampling parameters; all are set, so that engines add no defaults.

    top_k: 0 for all tokens. logit_bias: pairs of token id and bias. seed: None for any.
    """

    temperature: float
    top_p: float
    top_k: int
    min_p: float
    presence_penalty: float
    frequency_penalty: float
    repetition_penalty: float
    logit_bias: tuple[tuple[int, float], ...]
    min_tokens: int
    ignore_eos: bool
    seed: int | None
    n: int
    logprobs: int | None

    @property
    def common(self) -> JsonObject:
        """The parameters that all servers' engines know by these names."""
        return {name: getattr(self, name) for name in (*SAMPLING_DEFAULTS, "ignore_eos")}


def resolve_sampling(options: GenerationOptions, config: GenerationConfig) -> Sampling:
    """Return the options' values, then the model's, then the defaults."""
    top_k = options.top_k if options.top_k is not None else config.top_k
    return Sampling(
        **{name: float(config.resolve(options, name)) for name in SAMPLING_DEFAULTS},
        top_k=max(top_k or 0, 0),
        logit_bias=tuple((int(each), float(bias)) for each, bias in options.logit_bias.items()),
        min_tokens=options.min_tokens,
        ignore_eos=options.ignore_eos,
        seed=options.seed,
        n=options.n,
        logprobs=options.logprobs,
    )


class Grammar(NamedTuple):
    """The grammar of an answer, in Dynamo's form of guided decoding: one kind, and its value.

    guided: what the engine gets. answer: the same without the reasoning before it.
    json_calls: as in `ParserRequest`.
    """

    guided: JsonObject
    answer: JsonObject
    json_calls: bool


@dataclass
class Prompt:
    """A prompt for engines.

    token_ids: for a row with images, with as many image tokens as the model sees.
    text, images: for engines that combine them themselves.
    inputs: tensors that a processor made from the images, by argument of the model.
    pixels: of the images.
    """

    token_ids: list[int]
    text: str | None = None
    images: list[Any] = field(default_factory=list)
    inputs: dict[str, Any] = field(default_factory=dict)
    pixels: int = 0


_NOT_SAMPLED = resolve_sampling(GenerationOptions(), GenerationConfig())


@dataclass
class Row:
    """A request that can be generated.

    index: position in the batch. max_new_tokens: None only if the context length is unknown.
    completions: one per choice, made by `build_completions`; a back end feeds them.
    error: of a row that could not be prepared, or failed in the back end.
    grammar: constrains the answer; None for no constraint. lora: the adapter's name, or None.
    calls: the format in which malformed calls are generated again; None if they are not.
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
    lora: str | None = None
    calls: Format | None = None

    def __post_init__(self) -> None:
        self.restart()

    @classmethod
    def failed(cls, index: int, request_id: str, error: RowError) -> Self:
        """Return a row that could not be prepared."""
        return cls(index, request_id, Prompt([]), _NOT_SAMPLED, None, (), list, error)

    def restart(self) -> None:
        """Discard what was generated."""
        self.completions = self.build_completions()

    @property
    def finished(self) -> bool:
        """Whether all choices have ended."""
        return all(completion.finished for completion in self.completions)

    @property
    def needs_steps(self) -> bool:
        """Whether its text may end the answer before the engine does."""
        return self.completions[0].needs_steps

    def result(self, backend: str) -> GenerationResult:
        """Return the result of the row, which must have finished or failed."""
        errors = [self.error, *(completion.error for completion in self.completions)]
        error = next((found for found in errors if found is not None), None)
        choices = list[GeneratedChoice]()
        try:
            if error is None:
                choices = [completion.result() for completion in self.completions]
        except Exception as failure:  # noqa: BLE001 - the user's tokenizer may raise anything
            found = find_row_error(failure, "generation", "the tokenizer")
            error = msgspec.structs.replace(found, kind="generation")
        return GenerationResult(
            id=self.request_id,
            index=self.index,
            backend=backend,
            prompt_tokens=len(self.prompt.token_ids),
            choices=choices,
            error=error,
        )


def build_request_id(row: Row, completion: Completion) -> str:
    """Return an id for the engine with which no other request's begins, of this batch or a later.

    SGLang aborts every request whose id begins with the aborted one's.
    """
    return f"{uuid.uuid4().hex}-{row.index}-{completion.index}"
