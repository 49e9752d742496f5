"""The price of `--postprocess-malformed-calls regenerate`, and of a call that it writes again.

    python -m benchmarks.malformed_calls [--json] [--rounds 6]

Three workers with a real vLLM and the example model, and one frontend. Answers with five tools
and no slip: tokens per second under Dynamo's default grammar, without one, and with `regenerate`;
the ratios are medians of paired rounds. Then a call with a slip after a long prompt: the time until
a client has the right one, once the worker writes it again, and once the client sends the request
again; and the share of the second prompt that the engine finds in its cache.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
from backedge.base.json_types import JsonObject

from tests.e2e.slipping.scripts import FIRST_SEED, SLIPS
from tools.stack import HUGGINGFACE_FRONTEND, ROOT, Stack, metric

from .load import post
from .report import build_parser, compare_rounds, rotate, show
from .systems import PARSERS

REGENERATE = ("--postprocess-malformed-calls", "regenerate")
WORKERS: dict[str, tuple[str, ...]] = {
    "grammar": (),  # Dynamo's default for requests with tools
    "free": ("--dyn-structural-tag", '{"scope": "auto"}'),
    "regenerate": REGENERATE,
}
SLIPPING = ("--logits-processors", "tests.e2e.slipping.vllm_logits:Slipping")
STREAMS = (1, 8, 32)
TOKENS = 64  # of an answer
BLOCK = 32  # tokens of the engine's cache that are found together
LONG_PROMPT = 400  # words
WEATHER: JsonObject = {
    "type": "object",
    "properties": {"city": {"type": "string", "maxLength": 12}, "days": {"type": "integer"}},
    "required": ["city"],
    "additionalProperties": False,
}
NAMES = ("get_weather", "get_time", "search", "book", "cancel")
TOOLS = [{"type": "function", "function": {"name": name, "parameters": WEATHER}} for name in NAMES]


class PriceRow(msgspec.Struct):
    """Tokens per second by worker, and the ratios to those of `regenerate`."""

    streams: int
    grammar: float
    free: float
    regenerate: float
    to_grammar: float
    to_free: float


class RepairRow(msgspec.Struct):
    """A call with a slip. Times in milliseconds, medians; cached: share of whole blocks."""

    slip: str
    good_ms: float
    regenerated_ms: float
    retried_ms: float
    cached: float


def build_request(model: str, prompt: str = "Weather?", **fields: Any) -> JsonObject:
    """Return a streamed request with five tools."""
    return {
        "model": model,
        "messages": [{"role": "user", "content": prompt}],
        "tools": TOOLS,
        "stream": True,
        "stream_options": {"include_usage": True},
        **fields,
    }


async def ask(url: str, request: JsonObject) -> JsonObject:
    """Send a request; return the usage of its answer. Raises ValueError for an error."""
    usage: JsonObject = {}
    async for event in post(url, json.dumps(request).encode()):
        usage = event.get("usage") or usage
    return usage


async def load(url: str, model: str, streams: int) -> float:
    """Return the tokens per second of all answers."""
    left = iter(range(max(4, 2 * streams)))
    tokens = 0

    async def client() -> None:
        nonlocal tokens
        for number in left:
            more: dict[str, Any] = {"max_tokens": TOKENS, "seed": number, "ignore_eos": True}
            usage = await ask(url, build_request(model, **more))
            tokens += usage["completion_tokens"]

    began = time.monotonic()
    await asyncio.gather(*(client() for _ in range(streams)))
    return tokens / (time.monotonic() - began)


def price_rows(url: str, rounds: int) -> Iterator[PriceRow]:
    """Measure all workers in turn, round by round."""
    for streams in STREAMS:
        found: dict[str, list[float]] = {name: [] for name in WORKERS}
        for number in range(-1, rounds):
            for name in rotate(list(WORKERS), number):
                rate = asyncio.run(load(url, name, streams))
                if number >= 0:  # the first round compiles grammars
                    found[name].append(rate)
        medians = {name: sorted(rates)[len(rates) // 2] for name, rates in found.items()}
        ours = found["regenerate"]
        ratios = [compare_rounds(ours, found[name]) for name in ("grammar", "free")]
        yield PriceRow(streams, *medians.values(), *ratios)


def repair_rows(url: str, worker: str, rounds: int) -> Iterator[RepairRow]:
    """Measure calls with each slip, beside good ones and a client's second request."""
    for number, slip in enumerate(SLIPS.values()):
        if slip in ("invalid_json", "schema"):
            continue  # these have one reading, which is not generated again
        times: dict[str, list[float]] = {"good": [], "again": [], "retried": []}
        shares, of_first = [], 0.0
        for turn in range(rounds):
            # Each has a prompt of its own, which nothing has in its cache.
            cases: dict[str, dict[str, Any]] = {
                "good": {"seed": FIRST_SEED + len(SLIPS) + 1},
                "again": {"seed": FIRST_SEED + number},
                "retried": {
                    "seed": FIRST_SEED + number,
                    "metadata": {"backedge": {"malformed_calls": "open"}},
                },
            }
            for name, fields in cases.items():
                prompt = f"{slip} {turn} {name} " + "word " * LONG_PROMPT
                # After the call the example model writes at random, up to the limit.
                request = build_request("regenerate", prompt, max_tokens=80, **fields)
                before = cached_tokens(worker)
                began = time.monotonic()
                usage = asyncio.run(ask(url, request))
                if name == "retried":  # the client has seen the slip, and asks once more
                    asyncio.run(ask(url, {**request, "seed": 1, "tool_choice": "required"}))
                times[name].append((time.monotonic() - began) * 1000)
                found = cached_tokens(worker) - before
                if name == "good":
                    of_first = found  # the tools, which all prompts begin with
                elif name == "again":
                    whole = usage["prompt_tokens"] // BLOCK * BLOCK
                    shares.append((found - of_first) / whole)
        good, again, retried, cached = (
            sorted(each)[rounds // 2] for each in (*times.values(), shares)
        )
        yield RepairRow(slip, good, again, retried, cached)


def cached_tokens(worker: str) -> float:
    """Return how many tokens the engine has found in its cache so far."""
    return metric(worker, "vllm:prefix_cache_hits_total")


def main(command_line: Sequence[str] | None = None) -> None:
    """Run the benchmark and print its report."""
    arguments = build_parser(__doc__, 6).parse_args(command_line)
    with (
        tempfile.TemporaryDirectory() as folder,
        Stack(Path(folder), PYTHONPATH=str(ROOT)) as stack,
    ):
        workers = {
            name: stack.worker(
                "--vllm-processing", *SLIPPING, *PARSERS, *flags,
                name=name, wait=False, DYN_NAMESPACE=name,
            )
            for name, flags in WORKERS.items()
        }  # fmt: skip
        frontend = stack.frontend(command=HUGGINGFACE_FRONTEND, wait=False)
        for name in WORKERS:
            stack.wait_for_model(frontend, name)
        tables: dict[str, Sequence[msgspec.Struct]] = {
            "tokens per second, answers without a slip": list(
                price_rows(frontend.url, arguments.rounds)
            ),
            "a call with a slip": list(
                repair_rows(frontend.url, workers["regenerate"].url, arguments.rounds)
            ),
        }
    show(tables, as_json=arguments.json)


if __name__ == "__main__":
    main()
