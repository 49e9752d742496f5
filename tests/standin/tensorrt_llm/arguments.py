"""The parameters of the stand-in, in the form of TensorRT-LLM's."""

from __future__ import annotations

import dataclasses
import enum
import itertools
from typing import Any

import pydantic

request_ids = itertools.count(1 << 40)


@dataclasses.dataclass(kw_only=True)
class GuidedDecodingParams:
    json: Any = None
    regex: str | None = None
    grammar: str | None = None
    json_object: bool = False
    structural_tag: str | None = None


@dataclasses.dataclass(kw_only=True)
class SamplingParams:
    end_id: int | None = None
    pad_id: int | None = None
    max_tokens: int = 32
    stop: Any = None
    stop_token_ids: list[int] | None = None
    include_stop_str_in_output: bool = False
    n: int = 1
    best_of: int | None = None
    top_k: int | None = None
    top_p: float | None = None
    seed: int | None = None
    temperature: float | None = None
    min_tokens: int | None = None
    repetition_penalty: float | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    min_p: float | None = None
    logprobs: int | None = None
    prompt_logprobs: int | None = None
    return_perf_metrics: bool = False
    guided_decoding: GuidedDecodingParams | None = None
    logits_processor: Any = None
    ignore_eos: bool = False
    detokenize: bool = True


@dataclasses.dataclass(kw_only=True)
class DisaggregatedParams:
    request_type: str | None = None
    first_gen_tokens: list[int] | None = None
    first_gen_log_probs: list[Any] | None = None
    ctx_request_id: int | None = None
    opaque_state: bytes | None = None
    draft_tokens: list[int] | None = None
    disagg_request_id: int | None = None


@dataclasses.dataclass(kw_only=True)
class SchedulingParams:
    attention_dp_rank: int | None = None
    attention_dp_relax: bool | None = None


@dataclasses.dataclass
class PreprocessedInputs:
    prompt_token_ids: Any = None


class LogitsProcessor: ...


class SharedTensorContainer: ...


class VideoData: ...


class CapacitySchedulerPolicy(enum.Enum):
    GUARANTEED_NO_EVICT = "GUARANTEED_NO_EVICT"


class LoadFormat(enum.Enum):
    AUTO = "auto"


class DynamicBatchConfig(pydantic.BaseModel):
    enable_batch_size_tuning: bool
    enable_max_num_tokens_tuning: bool
    dynamic_batch_moving_average_window: int


class SchedulerConfig(pydantic.BaseModel):
    capacity_scheduler_policy: CapacitySchedulerPolicy
    dynamic_batch_config: DynamicBatchConfig | None = None


class KvCacheConfig(pydantic.BaseModel):
    free_gpu_memory_fraction: float | None = 0.9
    event_buffer_max_size: int = 0


class KvCacheConnectorConfig(pydantic.BaseModel):
    connector_module: str
    connector_scheduler_class: str
    connector_worker_class: str


class SleepConfig(pydantic.BaseModel): ...


class BaseLlmArgs(pydantic.BaseModel):
    max_batch_size: int | None = 2048
    max_num_tokens: int | None = 8192
    max_seq_len: int | None = None
    max_beam_width: int | None = 1


async def async_load_video(video: str, num_frames: int = 10) -> VideoData:
    raise NotImplementedError


def update_llm_args_with_extra_options(
    llm_args: dict[str, Any], extra_llm_api_options: str
) -> dict[str, Any]:
    raise NotImplementedError


def get_global_disagg_request_id(node_id: int, process_id: int = 0) -> int:
    return next(request_ids)
