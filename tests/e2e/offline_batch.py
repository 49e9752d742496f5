"""Generates all batches of `test_offline` with one back end; a process of its own.

    python -m tests.e2e.offline_batch BACKEND OUTPUT [VISION_MODEL]

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
    Plugin,
    VlmPreprocessOptions,
)

from tests.offline.batches import PARSED, ask, letters, request
from tests.offline.guided_rows import CASES as GUIDED
from tests.offline.stop_matrix import CASES as STOPS
from tests.offline.vision_rows import BUDGET, row_of_two, rows
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
ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "SGLANG_USE_CPU_ENGINE": "1",
    "HF_HUB_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
}
ALL = list(TRANSCRIPTS.values())
# What a row may ask for, in part, and all of it in greedy answers; 11 is a token of the answer,
# and 553 ends it.
FEW = {"stop": [], "max_new_tokens": 24}
OPTIONS: list[dict[str, Any]] = [
    {"presence_penalty": 2.0},
    {"frequency_penalty": 2.0},
    {"repetition_penalty": 2.0},
    # SGLang's repetition_penalty does not count the prompt's tokens, and its penalties depend on
    # the batch where a bias makes tokens nearly equal: both are left out here.
    {"presence_penalty": -2.0, "frequency_penalty": -2.0, **FEW},
    {"logit_bias": {"11": -100}, **FEW},
    {"logit_bias": {"11": 100}, **FEW},
    {"logit_bias": {"553": 100}, "min_tokens": 9, **FEW},
    {"ignore_eos": True, "stop": [], "max_new_tokens": 40},
    {"ignore_eos": True, "stop": [], "stop_token_ids": [11], "max_new_tokens": 40},
    {"min_p": 0.5},
    {"chat_template_kwargs": {"reasoning_effort": "low"}},
]
COMMA_SEED = 4711
COMMAS = GenerationOptions(max_new_tokens=4, temperature=0, seed=COMMA_SEED)


class Results(msgspec.Struct):
    """What a back end made of each batch. commas: with the plugin that changes logits."""

    transcripts: list[GenerationResult]
    stops: list[GenerationResult]
    guided: list[GenerationResult] = []
    commas: list[GenerationResult] = []
    options: list[GenerationResult] = []
    images: list[GenerationResult] = []


def build_engine(backend: str, plugins: Any = (), **fields: Any) -> GenerationEngine:
    config = {
        "model": TINY_MODEL,
        "backend": backend,
        "dtype": "float32",
        "max_model_len": 2048,
        "engine_args": ARGUMENTS[backend],
        **fields,
    }
    return GenerationEngine(ModelLoadConfig(**config), plugins)


def generate(backend: str, vision_model: str | None = None) -> Results:
    """Generate all batches that the back end can do, one model after the other."""
    with build_engine(backend, find_plugins(backend)) as engine:
        results = Results(
            engine.generate_text_batch([request(transcript, **PARSED) for transcript in ALL]),
            engine.generate_text_batch([case.row for case in STOPS]),
        )
        if backend != "replay":
            results.guided = engine.generate_text_batch([case.row for case in GUIDED])
            rows = [letters(number, **some) for number, some in enumerate(OPTIONS)]
            results.options = engine.generate_text_batch(rows)
        if backend == "vllm":
            results.commas = engine.generate_text_batch([ask("Hi", options=COMMAS)])
    if vision_model is not None and backend != "sglang":
        results.images = generate_images(backend, vision_model)
    return results


def find_plugins(backend: str) -> list[Plugin]:
    """Return a plugin that changes logits, of rows with one seed, for vLLM."""
    if backend != "vllm":
        return []
    from tests.e2e.only_commas import OnlyCommas

    return [OnlyCommas()]


def generate_images(backend: str, model: str) -> list[GenerationResult]:
    budget = VlmPreprocessOptions(max_pixels=BUDGET)
    with build_engine(backend, model=model, vlm=budget) as engine:
        options = GenerationOptions(max_new_tokens=8, temperature=0)
        return engine.generate_vlm_batch([*rows(), row_of_two()], options)


if __name__ == "__main__":
    backend, output, *model = sys.argv[1:]
    Path(output).write_bytes(msgspec.json.encode(generate(backend, *model)))
