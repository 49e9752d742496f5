"""The cost of post-processing a token, inline, one token at a time.

As a program it measures an answer for each line on stdin. The Python of another checkout runs it
by its path and with that checkout's `benchmarks`, so it imports only what older ones have, too.
"""

from __future__ import annotations

import functools
import gc
import sys
import time

import msgspec

from benchmarks.answers import Answer, Texts, answer
from benchmarks.postprocessors import OurPostprocessor, StartAnswer

US_PER_S = 1e6
# Tokens between two checks of the time limit.
STRIDE = 500


class Plan(msgspec.Struct):
    """The answer to measure: its kind, and about how many tokens it has."""

    kind: str
    tokens: int


class Measured(msgspec.Struct):
    """us: CPU microseconds per token. wrong: the kinds of text that came out wrong."""

    us: float
    wrong: str


class GivenUpError(Exception):
    """An answer took longer than the time limit."""


def measure(start_answer: StartAnswer, asked: Answer, limit_s: float = float("inf")) -> Measured:
    """Post-process an answer. Raises `GivenUpError` after `limit_s` of CPU time."""
    stream = start_answer(asked)
    gc.collect()
    gc.freeze()  # no system pays for collecting the objects of another
    *body, last = asked.token_ids
    start = time.process_time()
    for begin in range(0, len(body), STRIDE):
        for token_id in body[begin : begin + STRIDE]:
            stream.feed(token_id, last=False)
        if time.process_time() - start > limit_s:
            raise GivenUpError
    stream.feed(last, last=True)
    us = (time.process_time() - start) * US_PER_S / len(asked.token_ids)
    return Measured(us, differences(stream.texts(), asked.texts))


def differences(given: Texts, wanted: Texts) -> str:
    """Return the names of the texts that differ in more than the white space around them."""
    names = [
        name
        for name in Texts.__struct_fields__
        if getattr(given, name).strip() != getattr(wanted, name).strip()
    ]
    return ", ".join(names)


def main() -> None:
    """Measure this checkout's post-processing on request."""
    ours, make = OurPostprocessor(), functools.cache(answer)
    for line in sys.stdin.buffer:
        plan = msgspec.json.decode(line, type=Plan)
        measured = measure(ours, make(plan.kind, plan.tokens))
        sys.stdout.buffer.write(msgspec.json.encode(measured) + b"\n")
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
