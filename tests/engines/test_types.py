"""The types of Dynamo's and the engines' objects have what these objects have."""

from __future__ import annotations

import dataclasses
import inspect
from typing import Any

import pytest
from backedge.engines.dynamo import types as dynamo
from backedge.engines.sglang import worker as sglang
from backedge.engines.vllm import worker as vllm


def load_vllm() -> list[tuple[type, Any]]:
    from vllm.engine.arg_utils import AsyncEngineArgs
    from vllm.v1.engine.async_llm import AsyncLLM
    from vllm.v1.engine.detokenizer import IncrementalDetokenizer
    from vllm.v1.engine.output_processor import OutputProcessor, RequestState

    return [
        (vllm.VllmEngineArgs, AsyncEngineArgs),
        (vllm.VllmEngine, AsyncLLM),
        (vllm.VllmDetokenizer, IncrementalDetokenizer),
        (vllm.VllmRequestState, RequestState),
        (vllm.VllmOutputProcessor, OutputProcessor),
    ]


def load_sglang() -> list[tuple[type, Any]]:
    from sglang.srt.entrypoints.engine import Engine
    from sglang.srt.managers.tokenizer_manager import ReqState, TokenizerManager
    from sglang.srt.server_args import ServerArgs

    return [
        (sglang.SglangServerArgs, ServerArgs),
        (sglang.SglangEngine, Engine),
        (sglang.SglangRequestState, ReqState),
        (sglang.SglangTokenizerManager, TokenizerManager),
    ]


def load_dynamo() -> list[tuple[type, Any]]:
    from dynamo.llm import ModelRuntimeConfig
    from dynamo.runtime import Context

    return [
        (dynamo.Context, Context),
        (dynamo.ModelRuntimeConfig, ModelRuntimeConfig),
    ]


def has_member(real: type, name: str) -> bool:
    """Whether a class has a member, or sets it in a method as `self.name`."""
    fields = (
        {field.name for field in dataclasses.fields(real)}
        if hasattr(real, "__dataclass_fields__")
        else set[str]()
    )
    if hasattr(real, name) or name in fields:
        return True
    sources = [inspect.getsource(base) for base in real.__mro__ if base is not object]
    return any(f"self.{name}" in source for source in sources)


@pytest.mark.parametrize("load", [load_dynamo, load_vllm, load_sglang])
def test_the_real_classes_have_every_member(load: Any) -> None:
    missing = [
        f"{real.__name__}.{name}"
        for protocol, real in load()
        for name in {**inspect.get_annotations(protocol), **vars(protocol)}
        if not name.startswith("_") and not has_member(real, name)
    ]
    assert missing == []


def test_a_member_that_is_not_there_is_found() -> None:
    assert not has_member(vllm.VllmEngineArgs, "nothing_of_the_kind")
