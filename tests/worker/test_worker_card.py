"""What a worker says on its model card, and that the frontend's side can read it."""

from __future__ import annotations

import importlib.metadata
import json

import pytest
from backedge.parsers.base import ParserNames
from backedge.postprocess.messages import KEY, VERSION, WorkerCard, read
from backedge.worker.worker_card import build_worker_card, publish_worker_card
from dynamo.llm import ModelRuntimeConfig

OWN = importlib.metadata.version("backedge")
CARDS = [
    (
        build_worker_card("vllm", "0.31.0", ParserNames("hermes", "qwen3")),
        WorkerCard(
            engine="vllm",
            engine_version="0.31.0",
            tool_call_parser="hermes",
            reasoning_parser="qwen3",
            backedge_version=OWN,
        ),
    ),
    (
        build_worker_card("sglang", "0.5.21", ParserNames()),
        WorkerCard(engine="sglang", engine_version="0.5.21", backedge_version=OWN),
    ),
]


@pytest.mark.parametrize(("built", "expected"), CARDS)
def test_a_card_survives_dynamos_runtime_config(built: WorkerCard, expected: WorkerCard) -> None:
    config = ModelRuntimeConfig()
    publish_worker_card(built, config)
    # Dynamo's frontends get the value decoded once; what is left is our text.
    text = json.loads(config.runtime_data[KEY]) if KEY in config.runtime_data else None
    assert read(WorkerCard, text) == expected
    assert built.version == VERSION
