"""The worker's card: what a worker that post-processes tells frontends, versions included."""

from __future__ import annotations

import importlib.metadata
import json

from ..parsers.base import ParserNames
from ..postprocess.messages import KEY, WorkerCard, encode
from ..tokenization.tokenizer_selection import ModelRuntimeConfig


def build_worker_card(
    engine: str, engine_version: str, names: ParserNames, *, regenerates: bool = False
) -> WorkerCard:
    """Return the card of a worker that post-processes."""
    return WorkerCard(
        engine=engine,
        engine_version=engine_version,
        tool_call_parser=names.tool_call,
        reasoning_parser=names.reasoning,
        backedge_version=importlib.metadata.version("backedge"),
        regenerates=regenerates,
    )


def publish_worker_card(worker_card: WorkerCard, runtime_config: ModelRuntimeConfig) -> None:
    """Put the card into `runtime_config`, before the model is registered with it."""
    # Dynamo parses the value as JSON and sends the result. The card must arrive as a string, like
    # all our messages, so it is encoded once more.
    runtime_config.set_engine_specific(KEY, json.dumps(encode(worker_card)))
