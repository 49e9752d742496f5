"""Requests with a common prefix go to the worker that has it, by the workers' real KV events."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from tests.e2e.client import Client, Response
from tests.e2e.conftest import BACKEDGE_MODEL, RoutedFleet
from tests.e2e.test_turns import TRANSCRIPT, ask_for_call, send_back
from tools.stack import HUGGINGFACE_FRONTEND, Process, Stack

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


def test_an_agents_next_request_goes_to_the_worker_that_answered(
    routed_fleet: RoutedFleet, tmp_path: Path
) -> None:
    # A forked frontend would log as the process that it comes from.
    with Stack(tmp_path, DYN_FILE_KV=routed_fleet.stack.environment["DYN_FILE_KV"]) as stack:
        frontend = stack.frontend(
            *("--router-mode", "kv", "--keep-turns", "exact"),
            command=HUGGINGFACE_FRONTEND,
            wait=False,
            DYN_LOG="info,dynamo_llm::kv_router=debug",
        )
        stack.wait_for_model(frontend)
        messages = [{"role": "system", "content": BACKEDGE_MODEL}, *TRANSCRIPT["messages"]]
        before = routed_fleet.prompt_tokens()
        first = ask_for_call(frontend, BACKEDGE_MODEL, messages)
        home = find_busy(before, routed_fleet.prompt_tokens())
        message = first.choices[0].message
        result = {"role": "tool", "tool_call_id": message.tool_calls[0].id, "content": "21 C"}
        overlaps = {}
        for mode in ("off", "exact"):
            before = routed_fleet.prompt_tokens()
            ask_for_call(
                frontend,
                BACKEDGE_MODEL,
                [*messages, send_back(message), result],
                metadata={"backedge": {"keep_turns": mode}},
            )
            assert find_busy(before, routed_fleet.prompt_tokens()) == home
            overlaps[mode] = int(OVERLAP.findall(frontend.log.read_text())[-1][0])
    turn = first.usage.prompt_tokens + first.usage.completion_tokens - 1
    assert overlaps["off"] < turn // BLOCK <= overlaps["exact"], overlaps


def find_busy(before: list[float], after: list[float]) -> int:
    """Return the first worker whose count has grown."""
    pairs = zip(before, after, strict=True)
    return next(number for number, (old, new) in enumerate(pairs) if new > old)
