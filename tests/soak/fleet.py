"""The soak's fleet: three frontends, one of them Dynamo's, six workers, and a store of turns."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import openai

from tests.e2e.conftest import DYNAMO_PARSERS
from tests.e2e.test_regenerate import start_worker as start_regenerating
from tests.e2e.test_replay import PARSERS
from tests.soak.faults import POOL_PROCESSES, Member
from tests.soak.load import GUIDED, HELD_IN_RUST, TIMEOUT_S, Target
from tests.soak.store import Store
from tools.stack import (
    HUGGINGFACE_FRONTEND,
    STOCK_FRONTEND,
    Process,
    Stack,
    fetch,
    free_port,
    worker_is_ready,
)

MIGRATIONS = ("--migration-limit", "5")
# Native parsers in processes of their own, beside a real engine.
POOL = ("--vllm-processing", "--postprocess-parsers", "native", "--postprocess-workers", "2")
DEADLINE = ("--postprocess-deadline-s", "2")
TOKENS_PER_SECOND = "200"
# Two workers replay the one model, so that one of them can go at any time.
REPLAYED, POOLED = "replayed", "pooled"
# Two vLLM workers whose model slips at first; its name is that of the engine.
SLIPPING = "vllm"
MODELS = (REPLAYED, POOLED, SLIPPING)
STEADY, OTHER, STOCK = "steady frontend", "other frontend", "stock frontend"


class Fleet:
    """The processes of a soak, and who may be hit.

    steady: the frontend that is only stopped for a while. pooled: the worker whose pool is hit.
    members: all that are killed and started anew.
    """

    def __init__(self, stack: Stack) -> None:
        self._stack = stack
        self._store = Store(stack)
        self._port = free_port()
        starts: dict[str, Callable[[], Process]] = {
            f"replay worker, {latency}": partial(self._start_replay, latency)
            for latency in ("lowest", "balanced")
        }
        self.members = [
            Member(name, start(), start, is_ready, frozenset({GUIDED}))
            for name, start in starts.items()
        ]
        plain = Member(
            *("plain replay worker", self._start_plain(), self._start_plain, is_ready),
            frozenset({GUIDED, HELD_IN_RUST}),
        )
        self.members.append(plain)
        # It breaks nothing: no request fails or is wrong for want of a kept turn.
        store = Member(
            "store of turns", self._store.start(), self._store.start, self._store.answers
        )
        self.members.append(store)
        start_slipping = partial(start_regenerating, stack, SLIPPING)
        self.slipping = [
            Member(f"slipping worker {number}", start_slipping(), start_slipping, is_ready)
            for number in (1, 2)
        ]
        self.members += self.slipping
        self.pooled = stack.worker(*POOL, *DEADLINE, *PARSERS, name=POOLED, wait=False)
        self.steady = stack.frontend(
            *(*PARSERS, *MIGRATIONS, *self._store.flags), command=HUGGINGFACE_FRONTEND, wait=False
        )
        other = Member(
            OTHER, self._start_frontend(), self._start_frontend, serves_all, frozenset({OTHER})
        )
        self.members.append(other)
        self.stock = stack.frontend(*MIGRATIONS, command=STOCK_FRONTEND, wait=False)
        stack.wait_for_model(self.stock, REPLAYED)
        for frontend in (self.steady, other.process):
            for model in MODELS:
                stack.wait_for_model(frontend, model)
        self.targets = [
            # The example model has not learned calls in JSON, to which this frontend guides it.
            Target(
                *(name, build_client(frontend), model, (name, model) != (STEADY, POOLED)),
                pool=frozenset({POOL_PROCESSES} if model == POOLED else ()),
                keeps_turns=model == POOLED,
                read_again_by=DYNAMO_PARSERS[1] if model == REPLAYED else None,
            )
            for name, frontend in ((STEADY, self.steady), (OTHER, other.process))
            for model in (REPLAYED, POOLED)
        ]
        stock = Target(
            STOCK, build_client(self.stock), REPLAYED, shares={"options": 1.0}, is_stock=True
        )
        self.targets += [stock, stock]
        self.targets += [
            Target(name, build_client(frontend), SLIPPING, shares={"slips": 1.0})
            for name, frontend in ((STEADY, self.steady), (OTHER, other.process))
        ]

    def _start_plain(self) -> Process:
        pace = ("--tokens-per-second", TOKENS_PER_SECOND)
        return self._stack.replay("--plain", *DYNAMO_PARSERS, *pace, name=REPLAYED, wait=False)

    def _start_replay(self, latency: str) -> Process:
        pace = ("--tokens-per-second", TOKENS_PER_SECOND, "--postprocess-latency", latency)
        return self._stack.replay(*PARSERS, *DYNAMO_PARSERS, *pace, name=REPLAYED, wait=False)

    def _start_frontend(self) -> Process:
        flags = ("--tokenizer-backend", "vllm", *PARSERS, *MIGRATIONS, *self._store.flags)
        return self._stack.frontend(*flags, port=self._port, wait=False)


def is_ready(worker: Process) -> bool:
    """Whether a worker has registered its model."""
    return worker_is_ready(worker.url)


def serves_all(frontend: Process) -> bool:
    """Whether a frontend has found all models."""
    models = fetch(frontend.url + "/v1/models")
    return all(f'"{model}"' in models for model in MODELS)


def build_client(frontend: Process) -> openai.AsyncOpenAI:
    """Return the official client of a frontend; it asks nothing twice."""
    return openai.AsyncOpenAI(
        base_url=frontend.url + "/v1", api_key="none", timeout=TIMEOUT_S, max_retries=0
    )
