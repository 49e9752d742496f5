"""Requests with a common prefix go to the worker that has it, by the workers' real KV events."""

from __future__ import annotations

import re
from collections.abc import Callable

from tests.e2e.client import Client, Response
from tests.e2e.conftest import BACKEDGE_MODEL, RoutedFleet
from tools.stack import Process

BLOCK = 32
# More tokens than a prompt has before its prefix, or behind it.
TAIL = 32
OVERLAP = re.compile(r"with (\d+)/(\d+) blocks overlap")
# No other module may send these: the test sees them reach an empty cache.
PREFIXES = {"words": "one two three four five " * 60, "numbers": "6 7 8 9 10 11 12 13 " * 40}


def ask(frontend: Process, prefix: str, question: str) -> Response:
    messages = [
        {"role": "system", "content": PREFIXES[prefix]},
        {"role": "user", "content": question},
    ]
    return Client(frontend.url, BACKEDGE_MODEL).ask({"messages": messages}, max_tokens=4)


def test_a_shared_prefix_goes_to_the_worker_that_has_it(routed_fleet: RoutedFleet) -> None:
    check_routing(routed_fleet.frontends["vllm"], routed_fleet.prompt_tokens, BLOCK)


def check_routing(frontend: Process, count: Callable[[], list[float]], block: int) -> None:
    """Check that requests with one prefix go to one worker, and that the router knows why.

    count: returns how many tokens of prompts each worker has got. block: of the KV cache, in
    tokens.
    """
    homes: dict[str, int] = {}
    for prefix in PREFIXES:
        before = count()
        response = ask(frontend, prefix, "first")
        assert response.usage.prompt_tokens_details.cached_tokens < TAIL
        homes[prefix] = find_busy(before, count())
    for round_number in range(3):
        for prefix, home in homes.items():
            before = count()
            response = ask(frontend, prefix, f"again {round_number}")
            prefix_blocks = (response.usage.prompt_tokens - TAIL) // block
            assert find_busy(before, count()) == home
            assert response.usage.prompt_tokens_details.cached_tokens >= prefix_blocks * block
            overlap, total = map(int, OVERLAP.findall(frontend.log.read_text())[-1])
            assert overlap >= prefix_blocks, f"the router saw {overlap} of {total} blocks"


def find_busy(before: list[float], after: list[float]) -> int:
    """Return the first worker whose count has grown."""
    pairs = zip(before, after, strict=True)
    return next(number for number, (old, new) in enumerate(pairs) if new > old)
