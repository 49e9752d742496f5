"""What a client gets from a worker that fails in every form, over Dynamo's own wire."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import openai
import pytest

from tests.e2e.client import Client, Response, eventually
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


def ask(frontend: Process, script: str, *, stream: bool = False) -> Response:
    request: Any = {
        "messages": [{"role": "user", "content": f"[{script}]"}],
        "logprobs": True,
    }
    return Client(frontend.url, NAME).ask(request, stream=stream, lenient=True)


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("script", SCRIPTS)
def test_the_status_says_whose_fault_it_is(frontend: Process, script: str, stream: bool) -> None:
    """It is the client's only if the worker refuses; the log has one line without stack."""
    status, start = SCRIPTS[script][1], len(frontend.log.read_text())
    if status == 200:
        assert ask(frontend, script, stream=stream).answer.finish_reason in ("stop", "length")
    else:
        with pytest.raises(openai.APIError) as caught:
            ask(frontend, script, stream=stream)
        body: Any = caught.value.body
        assert (getattr(caught.value, "status_code", None) or body["code"]) == status
    log = frontend.log.read_text()[start:]
    assert len(re.findall("request chatcmpl-", log)) == (status != 200)
    assert "Traceback" not in log
    assert eventually(lambda: is_good(frontend), 60)


def is_good(frontend: Process) -> bool:
    """Whether a request is answered again: Dynamo asks a worker that said it ends a while later."""
    try:
        answer = ask(frontend, "good").answer
    except openai.InternalServerError:
        return False
    return (answer.content, answer.finish_reason) == ("a", "stop")
