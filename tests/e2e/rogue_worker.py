"""A Dynamo worker that sends what the prompt names: `python rogue_worker.py --served-model-name M`.

Run as a program by test_rogue_worker.py; it registers as the replay worker does.
"""

from __future__ import annotations

import math
import sys
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

import uvloop
from backedge.base.json_types import JsonObject
from backedge.engines.dynamo.types import ResponseSender
from backedge.testing.replay_worker.flags import build_flag_parser, build_worker
from backedge.testing.replay_worker.worker import ReplayWorker, serve
from backedge.worker.egress import push_or_pull
from dynamo.llm.exceptions import (
    Disconnected,
    EngineShutdown,
    InvalidArgument,
    RouterQueueLimitExceeded,
    WorkerUnavailable,
)
from dynamo.runtime.logging import configure_dynamo_logging

from tests.support import encode, tiny_tokenizer

LETTER = encode("a")


def output(**fields: Any) -> JsonObject:
    return {"index": 0, "token_ids": LETTER, **fields}


END = output(finish_reason="stop")
FIRST = output()
ERROR = "out of memory"
# What the worker sends, and the status of the answer without a stream.
SCRIPTS: dict[str, tuple[list[Any], int]] = {
    "good": ([FIRST, END], 200),
    "error alone": ([FIRST, output(token_ids=[], finish_reason="error")], 500),
    "error text": ([FIRST, output(token_ids=[], finish_reason=f"error: {ERROR}")], 500),
    "error object": ([FIRST, output(token_ids=[], finish_reason={"error": ERROR})], 500),
    "error first": ([output(token_ids=[], finish_reason={"error": ERROR})], 500),
    "abort": ([FIRST, output(finish_reason="abort")], 200),
    "cancelled": ([FIRST, output(finish_reason="cancelled")], 200),
    "unknown reason": ([FIRST, output(finish_reason="weird")], 500),
    "negative token": ([FIRST, output(token_ids=[-1])], 500),
    "token beyond all": ([output(token_ids=[(1 << 32) - 1]), END], 200),
    "choice beyond all": ([FIRST, output(index=7)], 500),
    "no number": ([output(log_probs=[math.nan]), END], 200),
    "infinite": ([output(log_probs=[-math.inf]), END], 200),
    "none between": ([FIRST, None, END], 200),
    "torn message": ([output(extra_args={"backedge": '{"version": 1'}), END], 500),
    "wrong message": ([output(extra_args={"backedge": '{"deltas": 5}'}), END], 500),
    "text": (["text"], 500),
    "exception": ([RuntimeError("x")], 500),
    # Dynamo takes these for refusals, also in its own frontends.
    "value error": ([ValueError("x")], 400),
    "type error": ([FIRST, TypeError("x")], 400),
    "refused": ([InvalidArgument("x")], 400),
    "silent end": ([FIRST], 503),
    "full": ([RouterQueueLimitExceeded("x")], 500),  # Dynamo sends it as any other exception
    # Its engine ends, or it cannot reach another worker that it needs.
    "shut down": ([FIRST, EngineShutdown("x")], 503),
    "unavailable": ([WorkerUnavailable("x")], 503),
    "disconnected": ([FIRST, Disconnected("x")], 503),
}


class RogueWorker(ReplayWorker):
    """Sends the script whose name stands in the prompt, in square brackets."""

    def generate(
        self, request: JsonObject, context: Any, response_sender: ResponseSender | None = None
    ) -> AsyncGenerator[JsonObject, None]:
        return push_or_pull(self._script(request), response_sender)

    async def _script(self, request: JsonObject) -> AsyncGenerator[JsonObject, None]:
        prompt = tiny_tokenizer().decode(request["token_ids"], skip_special_tokens=False)
        [script] = [steps for name, (steps, _) in SCRIPTS.items() if f"[{name}]" in prompt]
        for step in script:
            if isinstance(step, Exception):
                raise step
            yield step


def main() -> None:
    """Run the worker until the process is asked to end."""
    flags = build_flag_parser().parse_args()
    configure_dynamo_logging()
    worker = build_worker(flags)
    worker.__class__ = RogueWorker
    uvloop.run(serve(worker, flags))


if __name__ == "__main__":
    main()
