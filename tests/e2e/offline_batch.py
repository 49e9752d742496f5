"""Generates all transcripts and all stop cases with one back end; a process of its own.

    python -m tests.e2e.offline_batch BACKEND OUTPUT [VISION_MODEL]

With a vision model it generates images instead, with a budget of pixels.

Engines start processes and handle signals, which is none of pytest's business.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import msgspec
from backedge.offline import (
    GenerationEngine,
    GenerationOptions,
    GenerationResult,
    ModelLoadConfig,
    VlmPreprocessOptions,
)

from tests.offline.batches import PARSED, request
from tests.offline.stop_matrix import CASES
from tests.offline.vision_rows import BUDGET, rows
from tests.support import TINY_MODEL, TRANSCRIPTS

ARGUMENTS: dict[str, dict[str, Any]] = {
    "replay": {},
    "hf": {"batch_size": 16},
    "vllm": {
        "enforce_eager": True,
        "max_num_seqs": 16,
        "block_size": 32,
        "gpu_memory_utilization": 0.5,
    },
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
ALL = list(TRANSCRIPTS.values())


class Results(msgspec.Struct):
    """What a back end made of both batches."""

    transcripts: list[GenerationResult]
    stops: list[GenerationResult]


def build_engine(backend: str, **fields: Any) -> GenerationEngine:
    config = {
        "model": TINY_MODEL,
        "backend": backend,
        "dtype": "float32",
        "max_model_len": 2048,
        "engine_args": ARGUMENTS[backend],
        **fields,
    }
    return GenerationEngine(ModelLoadConfig.from_mapping(config))


def generate(backend: str) -> Results:
    with build_engine(backend) as engine:
        return Results(
            engine.generate_text_batch([request(transcript, **PARSED) for transcript in ALL]),
            engine.generate_text_batch([case.row for case in CASES]),
        )


def generate_images(backend: str, model: str) -> Results:
    budget = VlmPreprocessOptions(max_pixels=BUDGET)
    with build_engine(backend, model=model, vlm=budget) as engine:
        options = GenerationOptions(max_new_tokens=8, temperature=0)
        return Results(engine.generate_vlm_batch(rows(), options), [])


if __name__ == "__main__":
    backend, output, *model = sys.argv[1:]
    results = generate_images(backend, *model) if model else generate(backend)
    Path(output).write_bytes(msgspec.json.encode(results))
