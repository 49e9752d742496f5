"""Prints how the work grows with the size of what strangers wrote: python -m tests.hostile.growth

Three tables at 10, 40 and 160 KB: each format's parser on what it likes least of its own markers,
each function of a frontend that walks a request, on the field that it walks, and what recognizes a
kept turn. Time is the CPU's, the
least of three runs; the last column is the growth over sixteen times the size, 1.0 if it is linear.
Exit status 1 if one grows by more than `TOLERANCE`.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import functools
import itertools
import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence

from backedge.base.errors import BackedgeError
from backedge.frontend.prompt_queue import PromptQueue
from backedge.frontend.request.chat_request import decode_chat_request
from backedge.frontend.turns.conversation import digest_conversation
from backedge.parsers.base import ParserRequest
from backedge.parsers.format import Format
from backedge.parsers.formats.catalog import FORMATS
from backedge.parsers.linear_parsers import LinearParsers, Vocabulary
from dynamo.llm.exceptions import DynamoException

from tests.engines.frontends.all_edges import card, load
from tests.hostile.large_fields import FIELDS, Fields, call
from tests.parsers.families.family import TOOLS
from tests.parsers.test_linear_cost import BEHIND, SIGNS, pieces_of
from tests.support import write

SIZES = (10_000, 40_000, 160_000)
TOLERANCE = 2.0
RUNS = 3
# Arguments of numbers, which are compared by their values.
NUMBERS: dict[str, Callable[[int], Fields]] = {
    "earlier arguments, fractions": lambda size: call("[" + "1.5," * (size // 4) + "1]"),
    "earlier arguments, exponents": lambda size: call("[" + "1e308," * (size // 6) + "1]"),
    "earlier arguments, digits": lambda size: call("9" * size),
}
# Less than this is noise.
LEAST_S = 0.002


def measure(function: Callable[[], object]) -> float:
    """Return the CPU time of a call in seconds."""
    times = []
    for _ in range(RUNS):
        began = time.process_time()
        with contextlib.suppress(BackedgeError, DynamoException):
            function()
        times.append(time.process_time() - began)
    return min(times)


def parse(format_: Format, unit: Sequence[str], size: int) -> None:
    """Parse so many characters of the pieces of `unit`, again and again."""
    parser = LinearParsers(format_, None, Vocabulary({}))(
        ParserRequest(tools=list(TOOLS), tool_choice="auto"), []
    )
    for piece in itertools.islice(itertools.cycle(unit), size * len(unit) // len("".join(unit))):
        parser.feed(piece, [0])
    parser.finish(cut=True)


def find_worst(format_: Format) -> list[str]:
    """Return the pieces that cost the format's parser most."""
    units = [
        [piece for piece in (marker, behind) if piece]
        for marker in pieces_of(format_)
        for behind in (BEHIND if marker not in SIGNS else ("",))
    ]
    costs = []
    for unit in units:
        began = time.process_time()
        parse(format_, unit, SIZES[0] // 4)
        costs.append((time.process_time() - began, unit))
    return max(costs)[1]


def measure_formats() -> Iterator[tuple[str, list[float]]]:
    """Yield the times of each format's parser."""
    for format_ in FORMATS:
        unit = find_worst(format_)
        times = [measure(functools.partial(parse, format_, unit, size)) for size in SIZES]
        yield f"{format_.name}: {json.dumps(''.join(unit))}", times


def measure_fields() -> Iterator[tuple[str, list[float]]]:
    """Yield the times to prepare a request with each field."""
    flags = argparse.Namespace(tool_call_parser=None, reasoning_parser=None, chat_template=None)
    with asyncio.Runner() as runner:
        queue = PromptQueue(threads=1)
        model = runner.run(load("huggingface", flags, queue, card("vllm", 1_000_000)))

        async def prepare(body: bytes) -> None:
            async with model.prepare(json.loads(body)):
                pass

        def run(body: bytes) -> None:
            runner.run(prepare(body))

        for name, build in FIELDS.items():
            bodies = [json.dumps({"model": "tiny", **build(size)}).encode() for size in SIZES]
            yield name, [measure(functools.partial(run, body)) for body in bodies]


def measure_turns() -> Iterator[tuple[str, list[float]]]:
    """Yield the times to recognize a conversation with each field."""

    def run(fields: Fields) -> None:
        digest_conversation(decode_chat_request({"model": "tiny", **fields}), None)

    for name, build in (FIELDS | NUMBERS).items():
        yield name, [measure(functools.partial(run, build(size))) for size in SIZES]


def main() -> int:
    """Print the tables."""
    failed = False
    tables = {
        "parser and text": measure_formats(),
        "field": measure_fields(),
        "field, with turns kept": measure_turns(),
    }
    for title, rows in tables.items():
        write(
            f"| {title} | " + " | ".join(f"{size // 1000} KB, ms" for size in SIZES) + " | growth |"
        )
        write("|---" * (len(SIZES) + 2) + "|")
        for name, times in rows:
            growth = times[-1] / max(times[0], LEAST_S) / (SIZES[-1] / SIZES[0])
            failed |= growth > TOLERANCE
            shown = " | ".join(f"{seconds * 1000:.1f}" for seconds in times)
            write(f"| {name.replace('|', '/')} | {shown} | {growth:.2f} |")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
