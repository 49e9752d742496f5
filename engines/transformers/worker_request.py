"""A request of Dynamo's form as transformers' batches need it; other fields are refused by name."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import msgspec

from ...base.errors import RequestError
from ...base.json_types import JsonObject
from ...offline.rows import Sampling
from ...tokenization.model_files import SAMPLING_DEFAULTS, GenerationConfig

_NEUTRAL: tuple[object, ...] = (None, False, "", [], {})
# The fields that are known, by the object that has them. Post-processing does what some ask for.
FIELDS: Mapping[str, frozenset[str]] = {
    "sampling_options": frozenset(
        "n best_of temperature top_p top_k min_p seed frequency_penalty presence_penalty "
        "repetition_penalty logit_bias guided_decoding include_stop_str_in_output".split()
    ),
    "stop_conditions": frozenset(
        "max_tokens min_tokens stop stop_token_ids stop_token_ids_hidden ignore_eos".split()
    ),
    "output_options": frozenset("logprobs skip_special_tokens formatted_prompt".split()),
}
GUIDED = frozenset("json regex grammar choice structural_tag backend".split())
NOT_SAID = (
    "multi_modal_data mm_processor_kwargs prompt_embeds prefill_result bootstrap_info "
    "encoder_result"
).split()


class SamplingOptions(msgspec.Struct):
    """The client's sampling options; None for the model's."""

    n: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    seed: int | None = None
    frequency_penalty: float | None = None
    presence_penalty: float | None = None
    repetition_penalty: float | None = None
    logit_bias: dict[str, float] | None = None
    guided_decoding: JsonObject | None = None


class StopConditions(msgspec.Struct):
    """The ends of an answer. Stop strings are left to post-processing."""

    max_tokens: int | None = None
    min_tokens: int | None = None
    stop_token_ids: list[int] | None = None
    stop_token_ids_hidden: list[int] | None = None
    ignore_eos: bool | None = None


class OutputOptions(msgspec.Struct):
    """The data that the client wants besides the text."""

    logprobs: int | None = None


class EngineRequest(msgspec.Struct):
    """The parts of Dynamo's `PreprocessedRequest` that are read."""

    token_ids: list[int]
    eos_token_ids: list[int] | None = None
    sampling_options: SamplingOptions = msgspec.field(default_factory=SamplingOptions)
    stop_conditions: StopConditions = msgspec.field(default_factory=StopConditions)
    output_options: OutputOptions = msgspec.field(default_factory=OutputOptions)

    @property
    def asked_stops(self) -> list[int]:
        """The stop tokens that the client or the frontend names."""
        stops = self.stop_conditions
        return [*(stops.stop_token_ids or ()), *(stops.stop_token_ids_hidden or ())]

    def find_stops(self, eos_token_ids: Collection[int]) -> list[int]:
        """Return the tokens that end an answer. eos_token_ids: the model's."""
        own = () if self.stop_conditions.ignore_eos else (*eos_token_ids, *self._eos)
        return sorted({*own, *self.asked_stops})

    @property
    def _eos(self) -> list[int]:
        return self.eos_token_ids or []

    def limit_tokens(self, context_length: int) -> int:
        """Return the largest number of new tokens. Raises `RequestError` for a long prompt."""
        room = context_length - len(self.token_ids)
        if room < 1:
            raise RequestError.too_many("prompt", len(self.token_ids), "tokens", context_length - 1)
        asked = self.stop_conditions.max_tokens
        return room if asked is None else min(asked, room)

    def resolve_sampling(self, config: GenerationConfig, vocabulary_size: int) -> Sampling:
        """Return the request's values, then the model's, then the defaults.

        Raises `RequestError` for a value that no logits processor takes.
        """
        options, stops = self.sampling_options, self.stop_conditions
        values = {name: float(config.resolve(options, name)) for name in SAMPLING_DEFAULTS}
        top_k = options.top_k if options.top_k is not None else config.top_k
        for name, allowed, text in (
            ("temperature", values["temperature"] >= 0, "0 or more"),
            ("top_p", 0 < values["top_p"] <= 1, "above 0 and at most 1"),
            ("min_p", 0 <= values["min_p"] <= 1, "from 0 to 1"),
            ("repetition_penalty", values["repetition_penalty"] > 0, "above 0"),
        ):
            if not allowed:
                raise RequestError.wrong(name, values[name], text)
        return Sampling(
            **values,
            top_k=max(top_k or 0, 0),
            logit_bias=_read_bias(options.logit_bias or {}, vocabulary_size),
            min_tokens=stops.min_tokens or 0,
            ignore_eos=bool(stops.ignore_eos),
            seed=options.seed,
            n=options.n or 1,
            logprobs=self._read_logprobs(vocabulary_size),
        )

    def _read_logprobs(self, vocabulary_size: int) -> int | None:
        asked = self.output_options.logprobs
        return None if asked is None else min(asked, vocabulary_size)


def read_request(request: JsonObject) -> EngineRequest:
    """Return the request. Raises `RequestError` for what transformers cannot do."""
    _refuse("", request, NOT_SAID)
    for name, known in FIELDS.items():
        values: JsonObject = request.get(name) or {}
        _refuse(f"{name}.", values, set(values) - known)
    guided: JsonObject = (request.get("sampling_options") or {}).get("guided_decoding") or {}
    _refuse("sampling_options.guided_decoding.", guided, set(guided) - GUIDED)
    given = {name: value for name, value in request.items() if value is not None}
    try:
        return msgspec.convert(given, EngineRequest)
    except msgspec.ValidationError as error:
        raise RequestError("request", f"is not in Dynamo's form: {error}") from error


def _refuse(prefix: str, values: JsonObject, unknown: Collection[str]) -> None:
    for field in sorted(unknown):
        if values.get(field) not in _NEUTRAL:
            raise RequestError.unsupported(
                f"{prefix}{field}", "the worker of transformers cannot do it for one request"
            )


def _read_bias(bias: Mapping[str, float], size: int) -> tuple[tuple[int, float], ...]:
    pairs = []
    for name, value in bias.items():
        if not (name.isascii() and name.isdecimal()) or int(name[:10]) >= size:
            raise RequestError.wrong("logit_bias", name, f"a token id below {size}")
        pairs.append((int(name), float(value)))
    return tuple(pairs)
