"""The cost of the last turn of a conversation whose other turns the frontend knows.

    python -m benchmarks.conversations [--json] [--rounds 3] [--sizes 8000 100000] [--systems ...]

The first question has most of the tokens, as with a document or an agent's tools; each turn adds
`SHARE` of them, a question and the answer of the turn before. First each tokenizer back end by
itself: CPU milliseconds of tokenizing the last prompt, whole and with the cache of prompts. Then,
with --systems, each frontend's time to the first delta of the first and of the last turns, with
workers that replay answers. The systems take turns within each round.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import itertools
import json
import random
import statistics
import string
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any

import msgspec
from backedge.base.json_types import JsonObject
from backedge.templates.chat_template import ModelPrompts
from backedge.tokenization.prompt_cache import PromptCache

from tools.stack import MODEL_NAME

from .answers import TINY_MODEL
from .load import post
from .report import build_parser, rotate, show
from .systems import (
    BACKEDGE,
    BACKEDGE_HF,
    BACKEDGE_SGLANG,
    RUST,
    SGLANG_EACH,
    SYSTEMS,
    VLLM,
    Engine,
    System,
    running,
)

MS_PER_S = 1e3
SIZES = (8_000, 100_000, 200_000)
TURNS = 20
SHARE = 0.01
# Turns whose times to the first delta count as those of the last one.
LAST_TURNS = 3
# Besides the prompt: for the text that a chat template adds, and for the answer.
ROOM_TOKENS = 2_000
# Length of the text from which the characters per token are estimated.
SAMPLE_CHARACTERS = 20_000
WORD_LENGTHS = range(2, 11)
WARM_UP_TIMEOUT_S = 120.0
COMPARED = (RUST, VLLM, SGLANG_EACH, BACKEDGE_HF, BACKEDGE, BACKEDGE_SGLANG)

Encode = Callable[[str], Sequence[int]]
# (cache) -> the encoder that uses it
MakeEncode = Callable[[PromptCache], Encode]


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

    tokens: of the last prompt, about. first: turn 1. last: the last turns.
    problems: of all rounds, by turn.
    """

    system: str
    tokens: int
    first: float
    last: float
    problems: list[str]


def long_text(characters: int, seed: int = 0) -> str:
    """Return words of random letters, so that a tokenizer's cache of words does not help."""
    choose = random.Random(seed)
    words = (
        "".join(choose.choices(string.ascii_lowercase, k=choose.choice(WORD_LENGTHS))) + " "
        for _ in itertools.count()
    )
    return "".join(itertools.islice(itertools.chain.from_iterable(words), characters))


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
    return ModelPrompts(TINY_MODEL, cache=cache).encode


def _by_transformers(tokenizer: object, cache: PromptCache) -> Encode:
    from backedge.templates.transformers_tokenizers import make_encoder

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


# By back end: the encoder of a whole prompt, and the one with a cache.
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
    render = ModelPrompts(TINY_MODEL).template.render
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


class Turns(msgspec.Struct):
    """Milliseconds to the first delta of each turn that was answered, and the other turns."""

    ms: list[float] = []
    problems: list[str] = []


async def send(url: str, characters: int, turns: int, seed: int) -> Turns:
    """Send the turns of a conversation one after the other."""
    messages = make_messages(characters, turns, seed)
    sent = Turns()
    for turn in range(turns):
        request = {"messages": messages[: 2 * turn + 1], "max_tokens": 1, "stream": True}
        body = json.dumps({"model": MODEL_NAME, **request}).encode()
        start, first = time.monotonic(), None
        try:
            async for event in post(url, body):
                if event["choices"] and first is None:
                    first = time.monotonic() - start
        except (OSError, EOFError, ValueError) as error:
            sent.problems.append(f"turn {turn + 1}: {str(error) or type(error).__name__}")
        if first is not None:
            sent.ms.append(first * MS_PER_S)
    return sent


def measure_systems(arguments: argparse.Namespace, per_token: float) -> Iterator[TurnRow]:
    """Yield a row for each frontend and size."""
    sent: defaultdict[tuple[str, int], list[Turns]] = defaultdict(list)
    flags = ("--always", "content", "--prompt-tokens", str(max(arguments.sizes) + ROOM_TOKENS))
    with running(Engine("replay", 0, 0.0), arguments.systems, flags) as systems:
        for system in systems:
            warm_up(system)
        for number in range(arguments.rounds):
            for system in rotate(systems, number):
                print(f"round {number + 1}: {system.name}", file=sys.stderr)
                for tokens in arguments.sizes:
                    turns = send(system.url, int(tokens * per_token), arguments.turns, number)
                    sent[system.name, tokens].append(asyncio.run(turns))
    for (name, tokens), rounds in sent.items():
        yield summarize(name, tokens, rounds)


def warm_up(system: System) -> None:
    """Send a short request until it is answered. Raises RuntimeError after a time."""
    deadline = time.monotonic() + WARM_UP_TIMEOUT_S
    while (problems := asyncio.run(send(system.url, 1, 1, 0)).problems) and (
        time.monotonic() < deadline
    ):
        time.sleep(1)
    if problems:
        raise RuntimeError(f"{system.name} does not answer: {problems[0]}")


def summarize(system: str, tokens: int, rounds: Sequence[Turns]) -> TurnRow:
    """Return the medians of all rounds; NaN without an answer."""
    nan = [float("nan")]
    return TurnRow(
        system,
        tokens,
        statistics.median([turns.ms[0] for turns in rounds if turns.ms] or nan),
        statistics.median([ms for turns in rounds for ms in turns.ms[-LAST_TURNS:]] or nan),
        [problem for turns in rounds for problem in turns.problems],
    )


def main() -> None:
    """Run the benchmark and print its report."""
    parser = build_parser(__doc__, 3)
    parser.add_argument("--turns", type=int, default=TURNS)
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, help="tokens, last turn")
    parser.add_argument("--systems", nargs="*", choices=SYSTEMS, default=COMPARED)
    arguments = parser.parse_args()
    per_token = SAMPLE_CHARACTERS / len(_huggingface(PromptCache(0))(long_text(SAMPLE_CHARACTERS)))
    costs = [
        measure_tokenization(backend, int(tokens * per_token), arguments.turns, arguments.rounds)
        for backend in ENCODERS
        for tokens in arguments.sizes
    ]
    rows = list(measure_systems(arguments, per_token)) if arguments.systems else []
    tables: dict[str, Sequence[msgspec.Struct]] = {
        "tokenization of the last turn, CPU ms": costs,
        "time to the first delta, ms": rows,
    }
    show(tables, as_json=arguments.json)


if __name__ == "__main__":
    main()
