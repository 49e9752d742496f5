"""Growing conversations: what the last turn costs when all but its end was there before.

Used by `benchmarks.forward_edge`. The first question has most of the tokens, as with a document or
an agent's tools; each turn adds `SHARE` of them, a question and the answer of the turn before.
`measure_tokenization` measures the tokenizers alone, in this process. The load generator,
`python -m benchmarks.conversations`, reads one `Plan` as JSON from stdin, sends the turns one after
the other, and writes one `Outcome` as JSON to stdout.
"""

from __future__ import annotations

import asyncio
import gc
import json
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import msgspec
from backedge.base.json_types import JsonObject
from backedge.templates.model_files import ModelFiles
from backedge.tokenization.prompt_cache import PromptCache

from .answers import TINY_MODEL
from .load import post, run_module
from .long_prompts import long_text

MS_PER_S = 1e3
SIZES = (8, 1_000, 8_000, 32_000, 100_000, 200_000)
TURNS = 20
SHARE = 0.01
# From here on the last turn may cost this part of the tokenization of its whole prompt.
LARGE_TOKENS = 100_000
LARGEST_PART = 0.03

Encode = Callable[[str], Sequence[int]]
# (cache) -> what encodes with it
MakeEncode = Callable[[PromptCache], Encode]


class Plan(msgspec.Struct, frozen=True):
    """A conversation to send. characters: of its last prompt. seed: of the text."""

    url: str
    model: str
    characters: int
    turns: int = TURNS
    seed: int = 0


class Outcome(msgspec.Struct):
    """Milliseconds to each turn's first delta, and what was wrong, by turn."""

    turns: list[float] = []
    problems: list[str] = []


class TurnCost(msgspec.Struct):
    """CPU milliseconds for the tokenization of the last prompt of a conversation.

    tokens: of the prompt. whole: by the back end's own call. part: when the frontend has made the
    prompts of the turns before.
    """

    backend: str
    tokens: int
    whole: float
    part: float


class TurnRow(msgspec.Struct):
    """A frontend's time to the first delta, in milliseconds: medians of all rounds.

    tokens: of the last prompt, about. first: turn 1. last: the last three turns.
    """

    system: str
    tokens: int
    first: float
    last: float
    problems: int


def make_messages(characters: int, turns: int, seed: int = 0) -> list[JsonObject]:
    """Return the messages of the last turn; those of turn n are the first 2 n - 1."""
    words = long_text(characters, seed)
    added = max(2, int(characters * SHARE))
    start = max(1, characters - added * (turns - 1))
    messages: list[JsonObject] = [{"role": "user", "content": words[:start]}]
    for turn in range(turns - 1):
        at = start + turn * added
        messages.append({"role": "assistant", "content": words[at : at + added // 2]})
        messages.append({"role": "user", "content": words[at + added // 2 : at + added]})
    return messages


def _huggingface(cache: PromptCache) -> Encode:
    return ModelFiles(TINY_MODEL, cache=cache).encode


def _by_transformers(tokenizer: object, cache: PromptCache) -> Encode:
    from backedge.tokenization.transformers_tokenizers import make_encoder

    encoder = make_encoder(tokenizer, cache)
    if encoder is None:
        raise RuntimeError(f"{type(tokenizer).__name__} has no encoder")
    return encoder.encode


@cache
def _vllm_tokenizer() -> Any:
    from vllm.tokenizers import get_tokenizer

    return get_tokenizer(str(TINY_MODEL))


@cache
def _sglang_tokenizer() -> Any:
    from sglang.srt.utils.hf_transformers_utils import get_tokenizer

    return get_tokenizer(str(TINY_MODEL))


def _call(tokenizer: Any) -> Encode:
    return lambda text: list(tokenizer(text, add_special_tokens=False)["input_ids"])


# By back end: what encodes a whole prompt, and what remembers its parts.
ENCODERS: dict[str, tuple[Callable[[], Encode], MakeEncode]] = {
    "huggingface": (lambda: _huggingface(PromptCache(0)), _huggingface),
    "vllm": (
        lambda: _call(_vllm_tokenizer()),
        lambda cache: _by_transformers(_vllm_tokenizer(), cache),
    ),
    "sglang": (
        lambda: _call(_sglang_tokenizer()),
        lambda cache: _by_transformers(_sglang_tokenizer(), cache),
    ),
}


def measure_tokenization(backend: str, characters: int, turns: int, rounds: int) -> TurnCost:
    """Measure one back end. Raises RuntimeError if the ids are not those of the whole prompt."""
    make_whole, make_encode = ENCODERS[backend]
    whole = make_whole()
    render = ModelFiles(TINY_MODEL).template.render
    wholes, parts, tokens = [], [], 0
    for seed in range(rounds):
        messages = make_messages(characters, turns, seed)
        *before, last = (render(messages[: 2 * turn + 1]) for turn in range(turns))
        encode = make_encode(PromptCache())
        for text in before:
            encode(text)
        found, seconds = _time(encode, last)
        parts.append(seconds)
        expected, seconds = _time(whole, last)
        wholes.append(seconds)
        if found != expected:
            raise RuntimeError(f"{backend}: other ids with the cache than without")
        tokens = len(found)
    return TurnCost(
        backend, tokens, statistics.median(wholes) * MS_PER_S, statistics.median(parts) * MS_PER_S
    )


def _time(encode: Encode, text: str) -> tuple[list[int], float]:
    gc.collect()
    start = time.process_time()
    found = encode(text)
    seconds = time.process_time() - start
    return list(found), seconds


def run(plan: Plan) -> Outcome:
    """Send a conversation from a process of its own. Raises CalledProcessError if it fails."""
    return run_module("benchmarks.conversations", plan, Outcome)


def summarize(system: str, tokens: int, outcomes: Sequence[Outcome]) -> TurnRow:
    """Return the medians of all rounds; NaN without an answer."""
    firsts = [outcome.turns[0] for outcome in outcomes if outcome.turns]
    lasts = [turn for outcome in outcomes for turn in outcome.turns[-3:]]
    return TurnRow(
        system,
        tokens,
        statistics.median(firsts or [float("nan")]),
        statistics.median(lasts or [float("nan")]),
        sum(len(outcome.problems) for outcome in outcomes),
    )


def table(costs: Sequence[TurnCost], rows: Sequence[TurnRow], turns: int) -> list[str]:
    """Return the lines of the report."""
    lines = [f"Tokenization of turn {turns}, CPU ms: the whole prompt, and with the turns before"]
    lines.append(f"{'tokenizer':16}{'tokens':>10}{'whole':>10}{'part':>10}{'':>9}")
    lines += [
        f"{cost.backend:16}{cost.tokens:>10}{cost.whole:>10.2f}{cost.part:>10.2f}"
        f"{cost.part / cost.whole:>9.1%}"
        for cost in costs
    ]
    lines += ["", f"Time to the first delta of turn 1 and of turn {turns}, ms"]
    lines.append(f"{'system':24}{'tokens':>10}{'turn 1':>10}{f'turn {turns}':>10}")
    lines += [f"{row.system:24}{row.tokens:>10}{row.first:>10.1f}{row.last:>10.1f}" for row in rows]
    lines += [
        f"problem: {row.system}: {row.problems} turns of {row.tokens} tokens failed"
        for row in rows
        if row.problems
    ]
    return lines


async def send(plan: Plan) -> Outcome:
    """Send the turns one after the other."""
    messages = make_messages(plan.characters, plan.turns, plan.seed)
    outcome = Outcome()
    for turn in range(plan.turns):
        request = {"messages": messages[: 2 * turn + 1], "max_tokens": 1, "stream": True}
        body = json.dumps({"model": plan.model, **request}).encode()
        start, first = time.monotonic(), None
        try:
            async for event in post(plan.url, body):
                if event["choices"] and first is None:
                    first = time.monotonic() - start
        except (OSError, EOFError, ValueError) as error:
            outcome.problems.append(f"turn {turn + 1}: {str(error) or type(error).__name__}")
        if first is not None:
            outcome.turns.append(first * MS_PER_S)
    return outcome


if __name__ == "__main__":
    sent = asyncio.run(send(msgspec.json.decode(sys.stdin.buffer.read(), type=Plan)))
    sys.stdout.buffer.write(msgspec.json.encode(sent))
