"""The settings of post-processing that all requests of a worker share."""

from __future__ import annotations

from typing import Literal

import msgspec

from ..base.errors import MALFORMED_FLAG, SetupError
from ..base.limits import PROCESS_MEMORY_MB
from ..parsers.base import WorkerMalformedCalls

OnError = Literal["degrade", "fail"]
STREAM_CALLS_FLAG = "--postprocess-stream-calls"
StreamCalls = Literal["whole", "arguments"]
Latency = Literal["lowest", "balanced", "throughput"]


class MergeDelays(msgspec.Struct, frozen=True, kw_only=True):
    """How long a delta of each kind may wait for more of the same kind, in seconds.

    tokens: the delay of tokens without a delta.
    """

    content: float = 0.0
    reasoning: float = 0.0
    tools: float = 0.0
    tokens: float = 1.0

    def delay(self, kind: str) -> float:
        """Return the delay of a delta of this kind; 0 for a finish."""
        return 0.0 if kind == "finish" else float(getattr(self, kind))

    @property
    def shortest(self) -> float:
        """The shortest delay of a delta."""
        return min(self.content, self.reasoning, self.tools)


MERGE_DELAYS: dict[Latency, MergeDelays] = {
    "lowest": MergeDelays(),
    "balanced": MergeDelays(content=0.1, reasoning=0.2, tools=0.5),
    "throughput": MergeDelays(content=0.3, reasoning=1.0, tools=2.0, tokens=5.0),
}


class PostprocessSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The flags that post-processing obeys, in the worker's event loop or in a process of the pool.

    on_error: whether a parser that raises fails its request. malformed_calls: for all requests.
    stream_calls: how a call leaves that may be generated again; None: as a whole.
    deadline_s: limit for one step of a process of the pool, that is, one token.
    memory_mb: limit of the memory of each such process in MiB; 0 for no limit.
    """

    on_error: OnError = "degrade"
    malformed_calls: WorkerMalformedCalls = "open"
    stream_calls: StreamCalls | None = None
    delays: MergeDelays = MERGE_DELAYS["balanced"]
    deadline_s: float = 2.0
    memory_mb: int = PROCESS_MEMORY_MB


def check_stream_calls(malformed_calls: WorkerMalformedCalls, stream: StreamCalls | None) -> None:
    """Raise `SetupError` for `whole` without `regenerate`."""
    if stream == "whole" and malformed_calls != "regenerate":
        raise SetupError(
            f"{STREAM_CALLS_FLAG} whole needs {MALFORMED_FLAG} regenerate; without it calls leave "
            "as they are written. Drop one of the two."
        )
