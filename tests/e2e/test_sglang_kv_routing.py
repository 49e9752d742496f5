"""The same with SGLang's workers, whose engine publishes the events in its own way."""

from __future__ import annotations

from functools import partial

import pytest

from tests.e2e.conftest import describe_kv_events
from tests.e2e.test_kv_routing import check_routing
from tests.e2e.test_replay import PARSERS
from tools.stack import Stack, metric, worker_is_ready

# Pages of more than one token need a kernel that SGLang has for GPUs only.
PAGE = 1
ENGINE = ("--sglang-processing", *PARSERS, "--enable-metrics")


def test_a_shared_prefix_goes_to_the_worker_that_has_it(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    with Stack(tmp_path_factory.mktemp("sglang_routed")) as stack:
        workers = [
            stack.sglang(*ENGINE, "--kv-events-config", describe_kv_events(), wait=False)
            for _ in range(2)
        ]
        frontend = stack.frontend(
            *("--router-mode", "kv"), DYN_LOG="info,dynamo_llm::kv_router=debug"
        )
        for worker in workers:
            worker.wait_for(partial(worker_is_ready, worker.url))
        stack.wait_for_model(frontend)
        check_routing(
            frontend,
            lambda: [metric(worker.url, "sglang:prompt_tokens_total") for worker in workers],
            PAGE,
        )
