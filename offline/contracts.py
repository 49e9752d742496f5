"""The public types: configuration, options, requests, results, and errors."""

from __future__ import annotations

import dataclasses
import difflib
import functools
import os
from collections.abc import Iterable, Mapping, Sequence
from types import NoneType, UnionType
from typing import Any, Literal, Self, Union, get_args, get_origin, get_type_hints

from ..base.errors import BackedgeError, FieldError, SetupError
from ..base.json_types import JsonObject
from ..base.limits import MAX_STOP_CHARACTERS, MAX_STOP_TOKEN_IDS, MAX_STOPS
from ..base.ranges import INT_32, RANGES, Range
from ..parsers.base import WorkerMalformedCalls
from ..parsers.parser_lookup import Kind as ParserKind


def suggest(name: str, known: Iterable[str]) -> str:
    """Return the nearest known name as a question, or all known names."""
    names = sorted(known)
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.6)
    return f"did you mean {near[0]!r}?" if near else f"known: {', '.join(names) or 'none'}."


class UnknownOptionError(SetupError):
    """An option does not exist. owner: the object that was to have it, as text."""

    def __init__(self, owner: str, name: str, known: Iterable[str]) -> None:
        self.name = name
        super().__init__(f"{owner} has no option {name!r}; {suggest(name, known)}")


class OptionValueError(FieldError, SetupError):
    """An option has the wrong type or is out of range."""


class CapabilityError(SetupError):
    """A back end cannot do what a request, an option or a plugin requires.

    capability: the missing one, named as in `backend`.
    remedy: how the back end would get it; None if it never has it.
    """

    def __init__(
        self,
        asked: str,
        capability: str,
        backend: str,
        able: Iterable[str],
        remedy: str | None = None,
    ) -> None:
        self.capability, self.backend = capability, backend
        others = ", ".join(repr(name) for name in sorted(able) if name != backend)
        other = f"use {others}, or name one as fallback_backend" if others else "leave it out"
        remedy = other if remedy is None else f"{remedy}, or {other}"
        super().__init__(
            f"{asked} needs the capability {capability!r}, which the back end {backend!r} lacks; "
            f"{remedy}."
        )


class BackendUnavailableError(SetupError):
    """The library of a back end is not installed, or its version is not supported."""


class PluginError(SetupError):
    """A plugin does not suit the back end or the requests, or breaks its interface."""


class EngineDiedError(BackedgeError, RuntimeError):
    """A process of the engine has ended, or its device has failed. Finished rows are kept."""

    def __init__(self, engine: str) -> None:
        super().__init__(f"the engine died: {engine}'s own messages are in the log above.")


BackendName = Literal["hf", "vllm", "sglang", "replay"]
BACKENDS: tuple[str, ...] = get_args(BackendName)
RequestKind = Literal["text", "vlm", "embed"]


def check_names(owner: str, given: Iterable[str], known: Sequence[str]) -> None:
    """Raise `UnknownOptionError` for an option that `owner` does not have."""
    for name in given:
        if name not in known:
            raise UnknownOptionError(owner, name, known)


def field_names(cls: type[Any]) -> list[str]:
    """Return the names of a dataclass's fields."""
    return [field.name for field in dataclasses.fields(cls)]


@dataclasses.dataclass(frozen=True, kw_only=True)
class VlmPreprocessOptions:
    """Where images may come from, and how they are resized before the model sees them.

    min_pixels, max_pixels: limits for an image as the model's processor counts; None for its own.
    do_resize: whether the processor may resize images; None for its own default.
    image_hosts: hosts from which images may be fetched, HOST or HOST:PORT; addresses and networks
        also allow private addresses. Without any, URLs are refused.
    """

    max_pixels: int | None = None
    min_pixels: int | None = None
    do_resize: bool | None = None
    image_hosts: Sequence[str] = ()

    def __post_init__(self) -> None:
        """Check the values. Raises `OptionValueError`."""
        _check_fields(self, "vlm.")
        if self.max_pixels and self.min_pixels and self.min_pixels > self.max_pixels:
            raise OptionValueError.wrong(
                "vlm.min_pixels", self.min_pixels, f"at most vlm.max_pixels, {self.max_pixels}"
            )


@dataclasses.dataclass(frozen=True)
class ModelLoadConfig:
    """The model to load, and the back end.

    model: a folder, or a name that the back end can find.
    dtype: of the weights, as the back end names it ("auto", "float32", "bfloat16").
    max_model_len: limit for tokens of prompt and output together; None for the model's own.
    chat_template: path of a Jinja file to use instead of the model's own.
    tokenizer_module, tokenizer_class: your own tokenizer; it is called with the model's path.
    postprocess_parsers: linear, native, or auto, which takes the linear ones if they know the
        names.
    tool_parser_plugin: a module or file that registers tool parsers with vLLM.
    lora: adapters that rows may name as their model, by name: the folder of each.
    engine_args: additional arguments for the back end, by its own names; checked against the
        installed version before weights load.
    fallback_backend: used for requests that `backend` cannot do; None rejects them.
    """

    model: str | os.PathLike[str]
    _: dataclasses.KW_ONLY
    backend: BackendName = "hf"
    dtype: str = "auto"
    revision: str | None = None
    trust_remote_code: bool = False
    max_model_len: int | None = None
    chat_template: str | os.PathLike[str] | None = None
    tokenizer_module: str | None = None
    tokenizer_class: str | None = None
    postprocess_parsers: ParserKind = "auto"
    tool_parser_plugin: str | None = None
    lora: Mapping[str, str | os.PathLike[str]] = dataclasses.field(default_factory=dict)
    engine_args: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    vlm: VlmPreprocessOptions = dataclasses.field(default_factory=VlmPreprocessOptions)
    fallback_backend: BackendName | None = None

    def __post_init__(self) -> None:
        """Check the values. Raises `OptionValueError`."""
        if not isinstance(self.model, str | os.PathLike) or not str(self.model):
            raise OptionValueError.wrong("model", self.model, "a folder or a model's name")
        _check_adapters(self.lora)
        _check_fields(self)
        if not isinstance(self.vlm, VlmPreprocessOptions):
            raise OptionValueError.wrong("vlm", self.vlm, "VlmPreprocessOptions(...)")

    def for_fallback(self) -> Self:
        """Return the configuration of `fallback_backend`; `engine_args` are the first one's."""
        backend = self.fallback_backend or self.backend
        return dataclasses.replace(self, backend=backend, engine_args={}, fallback_backend=None)


@dataclasses.dataclass(frozen=True, kw_only=True)
class GenerationOptions:
    """How to generate and when to stop. None uses the value in the model's generation_config.

    max_new_tokens: None for as many as fit in the model's context.
    temperature: 0 for greedy. top_k: 0 or -1 for all tokens. min_p: 0 for all.
    presence_penalty, frequency_penalty: of the answer's tokens; repetition_penalty: also of the
        prompt's.
    logit_bias: added to the logits of these tokens, from -100 to 100.
    seed: for repeatable sampling, whatever else is in the batch.
    n: number of choices per request; more than one need a temperature above 0.
    min_tokens: no answer ends before it has more tokens. ignore_eos: nor at the model's own
        end-of-sequence tokens.
    stop: strings that end the answer; the first one to be complete wins, in a tie the first in
        the list. stop_token_ids: tokens that end it.
    include_stop: whether the text includes the string or token that ended it.
    logprobs: number of alternatives per token, 0 for only the token's own logprob; None for none.
    truncate_prompt_tokens: keep only so many tokens at a prompt's end; None rejects a prompt that
        is too long.
    chat_template_kwargs: variables of the chat template. `enable_thinking` is False unless given
        here or `reasoning_parser` asks for reasoning.
    message: whether results have a parsed message, by the parsers of these names. Stop strings
        then apply to the answer and not to the reasoning, as on a server.
    malformed_calls: open leaves malformed calls in the content; repair guesses; regenerate has the
        model write them again, held to a grammar.
    structural_tag_scope: always holds all calls that are parsed to a grammar, as servers do by
        default; auto those that are forced, strict or not parallel, as `regenerate` does.
    """

    max_new_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    repetition_penalty: float | None = None
    logit_bias: Mapping[int | str, float] = dataclasses.field(default_factory=dict)
    seed: int | None = None
    n: int = 1
    min_tokens: int = 0
    ignore_eos: bool = False
    stop: str | Sequence[str] = ()
    stop_token_ids: Sequence[int] = ()
    include_stop: bool = False
    logprobs: int | None = None
    truncate_prompt_tokens: int | None = None
    chat_template_kwargs: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    message: bool = False
    tool_call_parser: str | None = None
    reasoning_parser: str | None = None
    malformed_calls: WorkerMalformedCalls = "open"
    structural_tag_scope: Literal["always", "auto"] = "always"

    def __post_init__(self) -> None:
        """Check the values. Raises `OptionValueError`."""
        _check_bias(self.logit_bias)
        _check_fields(self)
        if self.n > 1 and self.temperature == 0:
            # Dynamo's frontend refuses such a request in these words.
            problem = f"must be greater than 0 to ensure diverse outputs when n > 1 (n={self.n})"
            raise OptionValueError("temperature", problem)
        if self.min_tokens > (self.max_new_tokens or INT_32):
            least = f"at most the answer's limit of tokens, {self.max_new_tokens}"
            raise OptionValueError.wrong("min_tokens", self.min_tokens, least)
        _check_stops(self.stop)
        _check_token_ids(self.stop_token_ids)
        if not self.message and (self.tool_call_parser or self.reasoning_parser):
            problem = "must be true where tool_call_parser or reasoning_parser is given"
            raise OptionValueError("message", problem)

    @property
    def stop_strings(self) -> list[str]:
        """The stop strings as a list."""
        return [self.stop] if isinstance(self.stop, str) else list(self.stop)


# OpenAI's bound on what a row adds to a logit.
_BIAS = Range(-100, 100)
_RANGES = {
    **RANGES,
    "logprobs": RANGES["top_logprobs"],
    **dict.fromkeys(("max_new_tokens", "truncate_prompt_tokens"), RANGES["max_tokens"]),
    **dict.fromkeys(("max_pixels", "min_pixels"), Range(1, INT_32)),
    "max_model_len": Range(2, INT_32),
}


@functools.cache
def _list_kinds(contract: type) -> list[tuple[str, Any, bool]]:
    """Return the fields of one kind: name, the kind, and whether None is allowed."""
    hints = get_type_hints(contract)
    found = []
    for name in field_names(contract):
        is_union = get_origin(hints[name]) in (Union, UnionType)
        kinds = get_args(hints[name]) if is_union else (hints[name],)
        if len(own := [kind for kind in kinds if kind is not NoneType]) == 1:
            found.append((name, own[0], NoneType in kinds))
    return found


def _check_fields(contract: Any, path: str = "") -> None:
    """Check each field's type and range. path: before its name in errors."""
    for name, kind, may_be_none in _list_kinds(contract.__class__):
        value = getattr(contract, name)
        if value is None and may_be_none:
            continue
        if (allowed := _find_allowed(name, kind, value)) is not None:
            raise OptionValueError.wrong(path + name, value, allowed)


def _find_allowed(name: str, kind: Any, value: object) -> str | None:
    """Return what is allowed in place of `value`; None if it is allowed itself."""
    if kind in (int, float):
        word, allowed = ("an integer" if kind is int else "a number"), _RANGES[name]
        is_number = isinstance(value, int | kind) and not isinstance(value, bool)
        if is_number and allowed.includes(value):  # type: ignore[arg-type]  # a number
            return None
        return str(allowed).replace("a number", word)
    if get_origin(kind) is Literal:
        return None if value in get_args(kind) else f"one of {', '.join(get_args(kind))}"
    if kind in (bool, str):
        return None if isinstance(value, kind) else f"of type {kind.__name__}"
    is_wrong = get_origin(kind) is Mapping and not isinstance(value, Mapping)
    return "a mapping" if is_wrong else None


def _check_adapters(given: object) -> None:
    folders = given.values() if isinstance(given, Mapping) else [None]
    if not all(isinstance(folder, str | os.PathLike) for folder in folders):
        raise OptionValueError.wrong("lora", given, "a mapping of names to folders")


def _check_token_ids(token_ids: object) -> None:
    is_list = isinstance(token_ids, Sequence) and not isinstance(token_ids, str)
    items = token_ids if isinstance(token_ids, Sequence) else ()
    if not is_list or not all(type(item) is int and 0 <= item <= INT_32 for item in items):
        raise OptionValueError.wrong("stop_token_ids", token_ids, "a list of token ids")
    if len(items) > MAX_STOP_TOKEN_IDS:
        unit = "token ids"
        raise OptionValueError.too_many("stop_token_ids", len(items), unit, MAX_STOP_TOKEN_IDS)


def _check_bias(given: object) -> None:
    items = list(given.items()) if isinstance(given, Mapping) else [(given, None)]
    if not all(_is_token_id(token_id) and _is_bias(bias) for token_id, bias in items):
        allowed = "an object of token ids and numbers from -100 to 100"
        raise OptionValueError.wrong("logit_bias", given, allowed)
    if len(items) > MAX_STOP_TOKEN_IDS:
        raise OptionValueError.too_many("logit_bias", len(items), "token ids", MAX_STOP_TOKEN_IDS)


def _is_token_id(value: object) -> bool:
    return isinstance(value, int | str) and str(value).isdecimal() and int(value) <= INT_32


def _is_bias(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and _BIAS.includes(value)


def _check_stops(given: object) -> None:
    if not isinstance(given, Sequence):
        raise OptionValueError.wrong("stop", given, "a string or a list of strings")
    stops = [given] if isinstance(given, str) else given
    if len(stops) > MAX_STOPS:
        raise OptionValueError.too_many("stop", len(stops), "strings", MAX_STOPS)
    for stop in stops:
        if not isinstance(stop, str) or not stop:
            raise OptionValueError.wrong("stop", stop, "one or more non-empty strings")
    characters = sum(len(str(stop)) for stop in stops)
    if characters > MAX_STOP_CHARACTERS:
        raise OptionValueError.too_many("stop", characters, "characters", MAX_STOP_CHARACTERS)


@dataclasses.dataclass(frozen=True, kw_only=True)
class TextGenerationRequest:
    """One row: a conversation, or the text of a prompt.

    messages: chat messages in OpenAI's form (system, user, assistant, tool).
    prompt: text to be tokenized unchanged, instead of messages.
    id: the caller's; None for the position in the batch. Ids in a batch must be unique.
    tools, tool_choice, parallel_tool_calls: as in OpenAI's API.
    response_format: constrains the answer to JSON, a schema or a structural tag, as in OpenAI's
        API.
    guided_json, guided_regex, guided_grammar, guided_choice: constrain it to a schema, a regular
        expression, a grammar in EBNF, or one of several texts. At most one constraint.
    options: of this row, overriding the batch's.
    lora: the adapter, by its name in `ModelLoadConfig.lora`; None for the model alone.
    """

    messages: Sequence[JsonObject] | None = None
    prompt: str | None = None
    id: str | None = None
    tools: Sequence[JsonObject] | None = None
    tool_choice: str | JsonObject | None = None
    parallel_tool_calls: bool = True
    response_format: JsonObject | None = None
    guided_json: JsonObject | str | bool | None = None
    guided_regex: str | None = None
    guided_grammar: str | None = None
    guided_choice: Sequence[str] | None = None
    options: GenerationOptions | None = None
    lora: str | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class EmbeddingRequest:
    """One row of embeddings. inputs: texts, or their token ids. id: None for the position."""

    inputs: Sequence[str | Sequence[int]]
    id: str | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class VlmGenerationRequest(TextGenerationRequest):
    """One row with images.

    image: a path, the bytes of a file, or a PIL image; or a list of them. They are inserted at the
        messages' parts of type "image", in order, or before the last user message's text.
    """

    image: Any = None
