"""The stacks that several modules of e2e tests share."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest

from tests.conftest import name_group
from tests.e2e.client import Client
from tests.e2e.forked import ForkingStack
from tools.stack import (
    ON_GPU,
    ROOT,
    STOCK_FRONTEND,
    VLLM_FRONTEND,
    Process,
    Stack,
    free_port,
    metric,
    worker_is_ready,
)

VLLM_PARSERS = ("--tool-call-parser", "hermes", "--reasoning-parser", "qwen3")
# The same, which the workers find in the model's files.
AUTO_PARSERS = ("--tool-call-parser", "auto", "--reasoning-parser", "auto")
DYNAMO_PARSERS = ("--dyn-tool-call-parser", "hermes", "--dyn-reasoning-parser", "qwen3")
BACKEDGE_MODEL = "tiny"
PLAIN_MODEL = "plain"
# Room for an answer that keeps the engine busy for many seconds: the example model
# generates 2,000 tokens before the client on a busy machine has seen the first.
MAX_MODEL_LEN = 16384
LONG_CONTEXT = ("--max-model-len", str(MAX_MODEL_LEN))
LONG_CONTEXT_ALLOWED = {"VLLM_ALLOW_LONG_MAX_MODEL_LEN": "1"}


# An engine's own metrics: running requests, generated tokens.
FIGURES = {
    "vllm": ("vllm:num_requests_running", "vllm:generation_tokens_total"),
    "sglang": ("sglang:num_running_reqs", "sglang:generation_tokens_total"),
    "trtllm": ("trtllm_standin_requests_running", "trtllm_standin_generated_tokens_total"),
}


@dataclass
class Fleet:
    """A mixed fleet: `worker` post-processes `BACKEDGE_MODEL`, `plain` serves `PLAIN_MODEL`.

    stack: for workers and frontends of single modules. engine: the engine of `worker` and `plain`,
    a key of `FIGURES`.
    """

    stack: Stack
    worker: Process
    plain: Process
    frontend: Process
    stock: Process
    stock_python: Process
    engine: str

    def generated(self, worker: Process | None = None) -> float:
        """Return how many tokens the engine has generated. worker: `self.worker` if None."""
        if self.engine == "trtllm" and ON_GPU:
            pytest.skip("TensorRT-LLM has no such counter; the stand-in has")
        return metric((worker or self.worker).url, FIGURES[self.engine][1])

    def has_stopped(self, before: float, worker: Process | None = None) -> bool:
        """Whether the engine has generated more than `before` tokens and is idle now."""
        idle = metric((worker or self.worker).url, FIGURES[self.engine][0]) == 0
        return idle and self.generated(worker) > before


# Stacks that end with the last test of their group. A frontend holds four of a user's 128 inotify
# instances for each model, so that not all stacks of a run have room beside each other.
open_stacks: list[Stack] = []


@pytest.hookimpl(trylast=True)  # after the fixtures of modules
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    if nextitem is None or name_group(item.path) != name_group(nextitem.path):
        while open_stacks:
            open_stacks.pop().stop()


@pytest.fixture(scope="session")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    folder = tmp_path_factory.mktemp("fleet")
    with (
        Stack(folder, **LONG_CONTEXT_ALLOWED) as stack,
        ForkingStack(folder / "forked", **stack.environment) as forked,
    ):
        worker = stack.worker(
            "--vllm-processing", *VLLM_PARSERS, *DYNAMO_PARSERS, *LONG_CONTEXT, wait=False
        )
        plain = forked.worker(
            "--reasoning-parser",
            "qwen3",
            *DYNAMO_PARSERS,
            *LONG_CONTEXT,
            name=PLAIN_MODEL,
            wait=False,
        )
        # A worker under the load of all tests takes longer than the default to refuse a request.
        frontend = stack.frontend(
            *VLLM_PARSERS, wait=False, DYN_HTTP_PRE_COMMIT_ERROR_PEEK_MS="30000"
        )
        stock = stack.frontend(command=STOCK_FRONTEND, wait=False)
        stock_python = forked.frontend(*VLLM_PARSERS, command=VLLM_FRONTEND, wait=False)
        for each in (frontend, stock, stock_python):
            for model in (BACKEDGE_MODEL, PLAIN_MODEL):
                stack.wait_for_model(each, model)
        open_stacks.extend((stack, forked))
        yield Fleet(forked, worker, plain, frontend, stock, stock_python, "vllm")


@pytest.fixture
def client(fleet: Fleet) -> Client:
    """Backedge on both sides."""
    return Client(fleet.frontend.url, BACKEDGE_MODEL)


MODULE, CLASS = "--tokenizer-module", "--tokenizer-class"
# A frontend for each tokenizer back end.
BACKENDS = {
    "huggingface": ("--tokenizer-backend", "huggingface"),
    "vllm": ("--tokenizer-backend", "vllm"),
    "sglang": ("--tokenizer-backend", "sglang"),
    "python": (
        *("--tokenizer-backend", "python"),
        *(MODULE, "tests.engines.frontends.edge_tokenizer", CLASS, "Wrapped"),
    ),
}
ON_PATH: dict[str, Any] = {"PYTHONPATH": f"{ROOT}:{ROOT / 'examples'}"}


@dataclass
class RoutedFleet:
    """Two workers with linear parsers, and frontends with the KV router by tokenizer back end.

    stack: as in `Fleet`.
    """

    stack: Stack
    workers: list[Process]
    frontends: dict[str, Process]

    def prompt_tokens(self) -> list[float]:
        """Return how many tokens of prompts each worker has computed or found in its cache."""
        return [metric(worker.url, "vllm:prompt_tokens_total") for worker in self.workers]


@pytest.fixture(scope="session")
def routed_fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RoutedFleet]:
    flags = ("--vllm-processing", *VLLM_PARSERS, "--postprocess-parsers", "linear")
    folder = tmp_path_factory.mktemp("routed")
    with Stack(folder) as stack, ForkingStack(folder / "forked", **stack.environment) as forked:
        workers = [
            forked.worker(
                *flags,
                "--enable-prefix-caching",
                "--kv-events-config",
                describe_kv_events(),
                wait=False,
            )
            for _ in range(2)
        ]
        log = "info,dynamo_llm::kv_router=debug"
        frontends = {
            # Dynamo reads DYN_LOG when it is imported, in a forked process before that is set.
            name: (stack if name == "vllm" else forked).frontend(
                *("--router-mode", "kv", *flags), wait=False, DYN_LOG=log, **ON_PATH
            )
            for name, flags in BACKENDS.items()
        }
        for worker in workers:
            worker.wait_for(partial(worker_is_ready, worker.url))
        for frontend in frontends.values():
            stack.wait_for_model(frontend)
        open_stacks.extend((stack, forked))
        yield RoutedFleet(forked, workers, frontends)


def describe_kv_events() -> str:
    # vLLM's publisher binds only to a wildcard; to an address it connects, and so does Dynamo.
    endpoint = f"tcp://*:{free_port()}"
    return json.dumps({"enable_kv_cache_events": True, "publisher": "zmq", "endpoint": endpoint})
