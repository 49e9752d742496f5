"""Not TensorRT-LLM: a stand-in with the names that Dynamo's worker imports; tests have no GPU.

It replays transcripts. A test that passes with it shows that Backedge and Dynamo's own, unmodified
worker fit together; it shows nothing of TensorRT-LLM itself. `tests/standin/test_signatures.py`
compares the names and parameters with those of the released sources.
"""

from __future__ import annotations

import importlib.metadata
import sys
from types import ModuleType
from typing import Any

import torch

from . import arguments, engine, parsers
from .engine import LLM, MultimodalEncoder

__all__ = ["LLM", "MultimodalEncoder", "torch"]  # torch, because the original imports it
# With Dynamo 1.7, that of the folder `newer`: the names and parameters are those of 1.3.
__version__ = importlib.metadata.version("tensorrt-llm")

# The modules of the original, and what of this package stands in them.
MODULES: dict[str, tuple[Any, ...]] = {
    "_torch": (),
    "_torch.shared_tensor": (arguments.SharedTensorContainer,),
    "executor": (),
    "executor.request": (),
    "executor.result": (engine.CompletionOutput, engine.GenerationResult, engine.Logprob),
    "executor.utils": (engine.RequestError,),
    "inputs": (),
    "inputs.multimodal_data": (arguments.VideoData,),
    "inputs.utils": (arguments.async_load_video,),
    "llmapi": (
        arguments.CapacitySchedulerPolicy,
        arguments.DisaggregatedParams,
        arguments.DynamicBatchConfig,
        arguments.KvCacheConfig,
        arguments.SchedulerConfig,
    ),
    "llmapi.disagg_utils": (arguments.get_global_disagg_request_id,),
    "llmapi.llm": (engine.BaseLLM, arguments.PreprocessedInputs, arguments.SamplingParams),
    "llmapi.llm_args": (
        arguments.BaseLlmArgs,
        arguments.KvCacheConnectorConfig,
        arguments.LoadFormat,
        arguments.SleepConfig,
    ),
    "llmapi.llm_utils": (arguments.update_llm_args_with_extra_options,),
    "llmapi.reasoning_parser": (parsers.ReasoningParserFactory, parsers.ReasoningParserResult),
    "llmapi.tokenizer": (engine.TransformersTokenizer, engine.tokenizer_factory),
    "metrics": (engine.MetricsCollector,),
    "sampling_params": (
        arguments.GuidedDecodingParams,
        arguments.LogitsProcessor,
        arguments.SamplingParams,
    ),
    "scheduling_params": (arguments.SchedulingParams,),
    "serve": (),
    "serve.openai_protocol": (parsers.ChatCompletionToolsParam, parsers.FunctionDefinition),
    "serve.tool_parser": (),
    "serve.tool_parser.core_types": (parsers.StreamingParseResult, parsers.ToolCallItem),
    "serve.tool_parser.tool_parser_factory": (parsers.ToolParserFactory,),
}
CONSTANTS: dict[str, dict[str, Any]] = {
    "executor.request": {"DEFAULT_REQUEST_PRIORITY": 0.5},
    "llmapi.llm_args": {"TOKENIZER_ALIASES": {}},
}

for path, members in MODULES.items():
    module = ModuleType(f"{__name__}.{path}")
    vars(module).update({member.__name__: member for member in members})
    vars(module).update(CONSTANTS.get(path, {}))
    sys.modules[module.__name__] = module
