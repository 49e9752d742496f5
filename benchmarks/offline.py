"""The time of a batch without a server, and of the bare engine: `LLM.chat`, `model.generate`.

    python -m benchmarks.offline [--json] [--engines hf vllm] [--model examples/tiny_model]
        [--rows 32] [--tokens 64] [--rounds 40]

Both generate the same rows with the same loaded model, turn by turn: once by `GenerationEngine`,
and once as the engine's own documentation shows it. Two cases: every row has its full length, and
a stop string ends each row where the engine has that built in. The ratio is the median of the
rounds' ratios, by the wall clock: both ways of a round follow each other within a second, so other
work on the machine slows both. A row whose texts differ is marked wrong.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
from backedge.base.json_types import JsonObject
from backedge.engines.transformers.offline import HfBackend
from backedge.engines.vllm.offline import VllmBackend
from backedge.offline import (
    GenerationEngine,
    GenerationOptions,
    ModelLoadConfig,
    TextGenerationRequest,
)

from .answers import TINY_MODEL
from .report import build_parser, show

ENGINES = ("hf", "vllm")
BATCH_SIZE = 16
# So that an engine on the CPU takes the threads that it is given, and no more.
ENVIRONMENT = {"OMP_NUM_THREADS": "1", "VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_NO_USAGE_STATS": "1"}
ARGUMENTS: dict[str, JsonObject] = {
    "hf": {"batch_size": BATCH_SIZE},
    "vllm": {
        "enforce_eager": True,
        "max_num_seqs": BATCH_SIZE,
        "block_size": 32,
        "enable_prefix_caching": False,
        "gpu_memory_utilization": 0.5,
        "disable_log_stats": True,
    },
}

Messages = list[JsonObject]
Generate = Callable[[Sequence[Messages]], list[str]]


class Row(msgspec.Struct):
    """One engine with one case.

    ours_s, bare_s: wall clock of a round, in seconds, medians. ratio: the median of the rounds'.
    low, high: their quartiles. wrong: the texts differ.
    """

    engine: str
    case: str
    ours_s: float
    bare_s: float
    ratio: float
    low: float
    high: float
    wrong: bool


class Settings(msgspec.Struct):
    """The command line."""

    model: Path
    rows: int
    tokens: int
    rounds: int


def conversations(count: int) -> list[Messages]:
    """Return conversations that the example model answers at length."""
    questions = ("Count to 160.", "List the letters.", "Write a story.", "Why is the sky blue?")
    return [
        [
            {
                "role": "user",
                "content": f"{questions[number % len(questions)]}{' Go.' * (number % 7)}",
            }
        ]
        for number in range(count)
    ]


def build_ours(engine: GenerationEngine, options: GenerationOptions) -> Generate:
    """Return our way."""

    def generate(batch: Sequence[Messages]) -> list[str]:
        requests = [TextGenerationRequest(messages=messages) for messages in batch]
        return [result.text for result in engine.generate_text_batch(requests, options)]

    return generate


def build_bare_hf(backend: HfBackend, model: Path, tokens: int, stop: str | None) -> Generate:
    """Return the way of transformers' documentation."""
    import torch
    import transformers

    tokenizer = transformers.AutoTokenizer.from_pretrained(model, padding_side="left")
    loaded = backend.model
    stops: JsonObject = {"stop_strings": [stop], "tokenizer": tokenizer} if stop else {}

    def generate(batch: Sequence[Messages]) -> list[str]:
        texts: list[str] = []
        for start in range(0, len(batch), BATCH_SIZE):
            inputs = tokenizer.apply_chat_template(
                list(batch[start : start + BATCH_SIZE]),
                add_generation_prompt=True,
                padding=True,
                return_tensors="pt",
                return_dict=True,
                enable_thinking=False,
            ).to(loaded.device)
            with torch.inference_mode():
                output = loaded.generate(**inputs, max_new_tokens=tokens, do_sample=False, **stops)
            new = output[:, inputs["input_ids"].shape[1] :]
            texts += tokenizer.batch_decode(new, skip_special_tokens=True)
        return texts

    return generate


def build_bare_vllm(backend: VllmBackend, tokens: int, stop: str | None) -> Generate:
    """Return the way of vLLM's documentation."""
    from vllm import SamplingParams

    params = SamplingParams(temperature=0, max_tokens=tokens, stop=stop)

    def generate(batch: Sequence[Messages]) -> list[str]:
        outputs: Any = backend.llm.chat(
            list(batch),
            params,
            use_tqdm=False,
            chat_template_kwargs={"enable_thinking": False},
        )
        return [output.outputs[0].text for output in outputs]

    return generate


def measure(name: str, engine: GenerationEngine, settings: Settings, stop: str | None) -> Row:
    """Return the times of one case."""
    options = GenerationOptions(
        max_new_tokens=settings.tokens, temperature=0, stop=[stop] if stop else []
    )
    backend = engine.backend
    if isinstance(backend, HfBackend):
        bare = build_bare_hf(backend, settings.model, settings.tokens, stop)
    else:
        assert isinstance(backend, VllmBackend)  # noqa: S101 - narrows the type
        bare = build_bare_vllm(backend, settings.tokens, stop)
    ways = {"ours": build_ours(engine, options), "bare": bare}
    batch = conversations(settings.rows)
    texts = {way: generate(batch) for way, generate in ways.items()}  # warms up, too
    times: dict[str, list[float]] = {way: [] for way in ways}
    for number in range(settings.rounds):
        # Each goes first as often as the other.
        for way in sorted(ways, reverse=number % 2 == 1):
            started = time.perf_counter()
            ways[way](batch)
            times[way].append(time.perf_counter() - started)
    case = f"until {stop!r}" if stop else "full length"
    right = is_right(texts["ours"], texts["bare"], stop)
    return build_row(name, case, times["ours"], times["bare"], right=right)


def is_right(ours: Sequence[str], bare: Sequence[str], stop: str | None) -> bool:
    """Whether the texts are equal.

    transformers keeps the stop string and what its token adds; and the engines write U+FFFD for an
    unfinished character at the end, which ours leaves out.
    """
    cut = [text.split(stop)[0] if stop else text for text in bare]
    ends = "\ufffd"
    return [text.rstrip(ends) for text in ours] == [text.rstrip(ends) for text in cut]


def build_row(
    name: str, case: str, ours_s: Sequence[float], bare_s: Sequence[float], *, right: bool
) -> Row:
    """Return the row of all rounds; both lists are in their order."""
    ratios = [ours / bare for ours, bare in zip(ours_s, bare_s, strict=True)]
    low, ratio, high = statistics.quantiles(ratios, n=4) if len(ratios) > 1 else ratios * 3
    medians = statistics.median(ours_s), statistics.median(bare_s)
    return Row(name, case, *medians, ratio, low, high, not right)


def run(name: str, settings: Settings) -> list[Row]:
    """Return the rows of one engine."""
    fields: Any = {"backend": name, "engine_args": ARGUMENTS[name]}
    config = ModelLoadConfig(settings.model, dtype="float32", **fields)
    with GenerationEngine(config) as engine:
        engine.load()
        return [measure(name, engine, settings, stop) for stop in (None, " 9")]


def main() -> None:
    """Run the benchmark and print its results."""
    parser = build_parser(__doc__, 40)
    parser.add_argument("--engines", nargs="+", choices=ENGINES, default=ENGINES)
    parser.add_argument("--model", type=Path, default=TINY_MODEL)
    parser.add_argument("--rows", type=int, default=32)
    parser.add_argument("--tokens", type=int, default=64)
    flags = parser.parse_args()
    for name, value in ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    settings = Settings(flags.model, flags.rows, flags.tokens, flags.rounds)
    rows = [row for name in flags.engines for row in run(name, settings)]
    show({"seconds of a round": rows}, as_json=flags.json)


if __name__ == "__main__":
    main()
