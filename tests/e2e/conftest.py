"""One stack for most e2e tests: a post-processing worker, a plain one, and all three kinds of frontend."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.e2e.client import Client
from tools.stack import STOCK_FRONTEND, VLLM_FRONTEND, Process, Stack, metric

VLLM_PARSERS = ("--tool-call-parser", "hermes", "--reasoning-parser", "qwen3")
DYNAMO_PARSERS = ("--dyn-tool-call-parser", "hermes", "--dyn-reasoning-parser", "qwen3")
BACKEDGE_MODEL = "tiny"
PLAIN_MODEL = "plain"
# Room for an answer that keeps the engine busy for many seconds: the example model
# is done with 2,000 tokens before the client on a busy machine has seen the first.
MAX_MODEL_LEN = 16384
LONG_CONTEXT = ("--max-model-len", str(MAX_MODEL_LEN))
LONG_CONTEXT_ALLOWED = {"VLLM_ALLOW_LONG_MAX_MODEL_LEN": "1"}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "/e2e/" in item.path.as_posix():
            item.add_marker("e2e")


# An engine's own figures: requests that run, and tokens generated.
FIGURES = {
    "vllm": ("vllm:num_requests_running", "vllm:generation_tokens_total"),
    "sglang": ("sglang:num_running_reqs", "sglang:generation_tokens_total"),
}


@dataclass
class Fleet:
    """A mixed fleet: `worker` post-processes and serves `BACKEDGE_MODEL`, `plain` serves `PLAIN_MODEL`.

    engine: of both.
    """

    stack: Stack
    worker: Process
    plain: Process
    frontend: Process
    stock: Process
    stock_python: Process
    engine: str = "vllm"

    def generated(self, worker: Process | None = None) -> float:
        """Return how many tokens the engine has generated. worker: `worker` unless it is given."""
        return metric((worker or self.worker).url, FIGURES[self.engine][1])

    def has_stopped(self, before: float, worker: Process | None = None) -> bool:
        """Whether the engine has generated something since it had generated `before` tokens, and does not any more."""
        idle = metric((worker or self.worker).url, FIGURES[self.engine][0]) == 0
        return idle and self.generated(worker) > before


@pytest.fixture(scope="session")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    with Stack(tmp_path_factory.mktemp("fleet"), **LONG_CONTEXT_ALLOWED) as stack:
        worker = stack.worker(
            "--vllm-processing", *VLLM_PARSERS, *DYNAMO_PARSERS, *LONG_CONTEXT, wait=False
        )
        plain = stack.worker(
            "--reasoning-parser",
            "qwen3",
            *DYNAMO_PARSERS,
            *LONG_CONTEXT,
            name=PLAIN_MODEL,
            wait=False,
        )
        frontend = stack.frontend(*VLLM_PARSERS, wait=False)
        stock = stack.frontend(command=STOCK_FRONTEND, wait=False)
        stock_python = stack.frontend(*VLLM_PARSERS, command=VLLM_FRONTEND, wait=False)
        for edge in (frontend, stock, stock_python):
            for model in (BACKEDGE_MODEL, PLAIN_MODEL):
                stack.wait_for_model(edge, model)
        yield Fleet(stack, worker, plain, frontend, stock, stock_python)


@pytest.fixture
def client(fleet: Fleet) -> Client:
    """Backedge on both sides."""
    return Client(fleet.frontend.url, BACKEDGE_MODEL)
