"""The table of bad requests against real frontends and workers, with every tokenizer back end."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.e2e.client import HTTP, Client
from tests.e2e.conftest import BACKEDGE_MODEL, BACKENDS, RoutedFleet
from tests.engines.frontends.bad_requests import BAD, USER, Bad
from tests.support import TRANSCRIPTS

# Dynamo drops this field where its values have the right type.
SENT = [bad for bad in BAD if not bad.field.startswith("stop_token_ids[")]
# What Dynamo's HTTP layer says of a body that it refuses before Backedge sees it.
DYNAMOS_OWN = re.compile(
    r"Failed to (?:deserialize|parse) the |Validation: |Maximum of 32 stop|Only one guided-decoding"
)
# Of the rows, how many come through Dynamo's HTTP layer at least.
OURS = 240
AT_ONCE = 16


def post(url: str, model: str, bad: Bad, *, stream: bool) -> tuple[int, str]:
    """Return status and message. `content`, since httpx refuses NaN itself."""
    body = {"model": model, "messages": [USER], "stream": stream, **bad.fields}
    answer = HTTP.post(
        f"{url}/v1/chat/completions",
        content=json.dumps(body),
        headers={"Content-Type": "application/json"},
    )
    return read_refusal(answer)


def read_refusal(answer: Any) -> tuple[int, str]:
    """Return status and message; the message is empty if the answer is no error.

    A stream that Dynamo has begun, since the check took longer than it waits, has them in an event.
    """
    if answer.headers["Content-Type"].startswith("text/event-stream"):
        begun = answer.text.partition("data: ")[2].partition("\n")[0]
        error = json.loads(begun).get("error") or {}
        return error.get("code", 200), error.get("message", "")
    try:
        return answer.status_code, str(answer.json().get("message", ""))
    except ValueError:  # the HTTP layer has errors that are no JSON
        return answer.status_code, answer.text


def send_all(url: str, model: str, rows: Sequence[Bad], is_streamed: Callable[[int], bool]) -> None:
    """Send the rows of the table, and check that each request is refused for its field.

    is_streamed: whether the request with this number is to be streamed.
    """
    with ThreadPoolExecutor(AT_ONCE) as threads:
        answers = threads.map(
            lambda row: post(url, model, row[1], stream=is_streamed(row[0])), enumerate(rows)
        )
        ours = 0
        for bad, (status, message) in zip(rows, answers, strict=True):
            assert status == 400, (bad.id, message)
            # A number of 64 bits and more is no list of token ids when it has come through.
            names = (bad.field, bad.field[: -len("[0]")])
            named = any(f"`{field}` " in message for field in names)
            assert named or DYNAMOS_OWN.match(message), (bad.id, message)
            ours += named
    assert ours >= OURS


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
@pytest.mark.parametrize("backend", BACKENDS)
def test_every_bad_request_is_a_400_and_costs_the_frontend_nothing(
    routed_fleet: RoutedFleet, backend: str, stream: bool
) -> None:
    frontend = routed_fleet.frontends[backend]
    before = routed_fleet.prompt_tokens()
    send_all(frontend.url, BACKEDGE_MODEL, SENT, lambda _: stream)
    assert routed_fleet.prompt_tokens() == before, "no worker has seen any of them"
    assert "Traceback" not in frontend.log.read_text()
    answer = Client(frontend.url, BACKEDGE_MODEL).ask(TRANSCRIPTS["plain_text"])
    assert answer.message == TRANSCRIPTS["plain_text"]["expect"]
