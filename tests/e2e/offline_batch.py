"""Generates all transcripts and all stop cases with one back end; a process of its own.

    python -m tests.e2e.offline_batch BACKEND OUTPUT

Engines start processes and handle signals, which is none of pytest's business.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import msgspec
from backedge.offline import GenerationEngine, GenerationResult, ModelLoadConfig

from tests.offline.batches import PARSED, request
from tests.offline.stop_matrix import CASES
from tests.support import TINY_MODEL, TRANSCRIPTS

ARGUMENTS: dict[str, dict[str, Any]] = {
    "replay": {},
    "hf": {"batch_size": 16},
    "vllm": {"enforce_eager": True, "max_num_seqs": 16, "block_size": 32},
    "sglang": {
        "device": "cpu",
        "attention_backend": "torch_native",
        "sampling_backend": "pytorch",
        "max_total_tokens": 4096,
        "max_running_requests": 16,
        "disable_cuda_graph": True,
        "skip_server_warmup": True,
        "sleep_on_idle": True,
    },
}
# Forced calls need guided decoding.
FREE = [
    transcript
    for transcript in TRANSCRIPTS.values()
    if transcript.get("tool_choice") in (None, "auto", "none")
]


class Results(msgspec.Struct):
    """What a back end made of both batches."""

    transcripts: list[GenerationResult]
    stops: list[GenerationResult]


def build_engine(backend: str, **arguments: Any) -> GenerationEngine:
    config = {
        "model": TINY_MODEL,
        "backend": backend,
        "dtype": "float32",
        "max_model_len": 2048,
        "engine_args": ARGUMENTS[backend] | arguments,
    }
    return GenerationEngine(ModelLoadConfig.from_mapping(config))


def generate(backend: str) -> Results:
    with build_engine(backend) as engine:
        return Results(
            engine.generate_text_batch([request(transcript, **PARSED) for transcript in FREE]),
            engine.generate_text_batch([case.row for case in CASES]),
        )


if __name__ == "__main__":
    Path(sys.argv[2]).write_bytes(msgspec.json.encode(generate(sys.argv[1])))
