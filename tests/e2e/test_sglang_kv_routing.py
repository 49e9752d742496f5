"""The same with SGLang's workers, whose engine publishes the events in its own way.

These workers know their parsers only by Dynamo's flags, beside which Dynamo refuses SGLang's.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial

import pytest

from tests.e2e.client import Client
from tests.e2e.conftest import DYNAMO_PARSERS, describe_kv_events
from tests.e2e.forked import ForkingStack
from tests.e2e.test_kv_routing import check_routing
from tests.support import TRANSCRIPTS
from tools.stack import (
    HUGGINGFACE_FRONTEND,
    MODEL_NAME,
    STOCK_FRONTEND,
    Process,
    Stack,
    metric,
    worker_is_ready,
)

# Pages of more than one token need a kernel that SGLang has for GPUs only.
PAGE = 1
ENGINE = ("--sglang-processing", *DYNAMO_PARSERS, "--enable-metrics")
EDGES = {"ours": HUGGINGFACE_FRONTEND, "stock": STOCK_FRONTEND}


@pytest.fixture(scope="module")
def fleet(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[list[Process], dict[str, Process]]]:
    """Two workers, a frontend that routes by their events, and one of each kind."""
    folder = tmp_path_factory.mktemp("sglang_routed")
    with Stack(folder) as stack, ForkingStack(folder / "forked", **stack.environment) as forked:
        workers = [
            forked.sglang(*ENGINE, "--kv-events-config", describe_kv_events(), wait=False)
            for _ in range(2)
        ]
        routes = ("--router-mode", "kv")
        frontends = {
            "routes": stack.frontend(*routes, DYN_LOG="info,dynamo_llm::kv_router=debug"),
            **{name: stack.frontend(command=EDGES[name], wait=False) for name in EDGES},
        }
        for worker in workers:
            worker.wait_for(partial(worker_is_ready, worker.url))
        for frontend in frontends.values():
            stack.wait_for_model(frontend)
        yield workers, frontends


def test_a_shared_prefix_goes_to_the_worker_that_has_it(
    fleet: tuple[list[Process], dict[str, Process]],
) -> None:
    workers, frontends = fleet
    check_routing(
        frontends["routes"],
        lambda: [metric(worker.url, "sglang:prompt_tokens_total") for worker in workers],
        PAGE,
    )


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("edge", EDGES)
def test_dynamos_names_of_the_parsers_serve_calls_to_both_kinds_of_frontend(
    fleet: tuple[list[Process], dict[str, Process]], edge: str, stream: bool
) -> None:
    transcript = TRANSCRIPTS["tool_call"]
    client = Client(fleet[1][edge].url, MODEL_NAME)
    answer = client.ask(transcript, stream=stream, lenient=True).answer
    [wanted], [called] = transcript["expect"]["tool_calls"], answer.tool_calls
    assert called["name"] == wanted["name"]
    assert json.loads(called["arguments"]) == json.loads(wanted["arguments"])
    assert answer.finish_reason == "tool_calls"
