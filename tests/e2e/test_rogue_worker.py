"""What a client gets from a worker that fails in every form, over Dynamo's own wire."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import openai
import pytest

from tests.e2e.client import HTTP
from tests.e2e.rogue_worker import SCRIPTS
from tools.stack import HUGGINGFACE_FRONTEND, Process, Stack

PROGRAM = str(Path(__file__).with_name("rogue_worker.py"))
NAME = "rogue"


@pytest.fixture(scope="module")
def frontend(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    with Stack(tmp_path_factory.mktemp("rogue")) as stack:
        stack.run_worker((PROGRAM, "--served-model-name", NAME), wait=False)
        found = stack.frontend(command=HUGGINGFACE_FRONTEND, wait=False)
        stack.wait_for_model(found, NAME)
        yield found


def ask(frontend: Process, script: str) -> Any:
    client = openai.OpenAI(
        base_url=frontend.url + "/v1", api_key="x", max_retries=0, http_client=HTTP
    )
    return client.chat.completions.create(
        model=NAME, messages=[{"role": "user", "content": f"[{script}]"}], logprobs=True
    )


@pytest.mark.parametrize("script", SCRIPTS)
def test_the_status_says_whose_fault_it_is(frontend: Process, script: str) -> None:
    """And never the client's, who has done nothing wrong."""
    status = SCRIPTS[script][1]
    if status == 200:
        assert ask(frontend, script).choices[0].finish_reason in ("stop", "length")
    else:
        with pytest.raises(openai.APIStatusError) as caught:
            ask(frontend, script)
        assert caught.value.status_code == status
    good = ask(frontend, "good").choices[0]
    assert (good.message.content, good.finish_reason) == ("a", "stop")
