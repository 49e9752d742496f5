"""Bad input, clients that leave, answers that end early."""

from __future__ import annotations

from typing import Any

import openai
import pytest

from tests.e2e.client import Client, eventually
from tests.e2e.conftest import MAX_MODEL_LEN, Fleet
from tests.support import TRANSCRIPTS

STREAMED = pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
COUNT = TRANSCRIPTS["count"]
# Seconds of work for the engine, so that there is something to end.
LONG = 6_000
# What the engine may generate behind the end, per choice, while the word of it is on its way: a
# token or two where the machine is idle, a second's worth where it is busy.
BEHIND_THE_END = LONG / 10
LONG_REQUEST: dict[str, Any] = {
    "max_tokens": LONG,
    "extra_body": {"ignore_eos": True, "chat_template_kwargs": COUNT["chat_template_kwargs"]},
}
TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "nonsense"}}}
SCHEMA = {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "nonsense"}}}


def backedge(**fields: Any) -> dict[str, Any]:
    return {"metadata": {"backedge": fields}}


# The field, or what Dynamo's HTTP layer says where it refuses first; the request.
BAD = [
    ("min_tokens", {"max_tokens": 5, "extra_body": {"min_tokens": 10}}),
    ("top_logprobs", {"top_logprobs": 2}),
    ("Top_logprobs", {"logprobs": True, "top_logprobs": 50}),
    ("tools[0].function.parameters", {"tools": [TOOL]}),
    ("tools[1].function.name", {"tools": [{"type": "function", "function": {"name": "f"}}] * 2}),
    ("response_format.json_schema.schema", {"response_format": SCHEMA}),
    ("guided_json", {"extra_body": {"guided_json": 5}}),
    ("messages[0].content", {"messages": [{"role": "user", "content": []}]}),
    ("tool_choice", {"tool_choice": "required"}),
    ("Stop sequence", {"stop": ["", ""]}),
    ("stop sequences", {"stop": [str(number) for number in range(40)]}),
    ("enum Stop", {"stop": ["a", 1]}),
    ("enum ChatCompletionToolChoiceOption", {"tool_choice": "sometimes", "tools": [TOOL]}),
    ("metadata.backedge.stop_token_ids", backedge(stop_token_ids="x")),
    ("metadata.backedge.return_token_ids", backedge(return_token_ids="x")),
    ("metadata.backedge.colour", backedge(colour="red")),
    ("metadata.backedge", {"metadata": {"backedge": 3}}),
    ("n must be", {"n": 0}),
]


@STREAMED
@pytest.mark.parametrize(("field", "fields"), BAD, ids=[field for field, _ in BAD])
def test_bad_values_are_400_with_the_field(
    client: Client, fleet: Fleet, stream: bool, field: str, fields: Any
) -> None:
    before = fleet.generated()
    with pytest.raises(openai.BadRequestError) as caught:
        client.ask(TRANSCRIPTS["plain_text"], stream=stream, **fields)
    assert caught.value.status_code == 400
    assert field in str(caught.value)
    assert fleet.generated() == before


def test_what_the_engine_refuses_is_400_too(client: Client) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        client.ask({"messages": [{"role": "user", "content": "long " * 30_000}]})
    assert str(MAX_MODEL_LEN) in str(caught.value)


@STREAMED
def test_a_grammar_that_only_the_worker_can_judge_is_400(client: Client, stream: bool) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        client.ask(TRANSCRIPTS["plain_text"], stream=stream, extra_body={"guided_regex": "("})
    assert "regex" in str(caught.value).lower()


def test_a_client_that_leaves_ends_generation(client: Client, fleet: Fleet) -> None:
    client.ask(TRANSCRIPTS["plain_text"])  # the first request of a worker builds what it needs
    before = fleet.generated()
    stream = client.openai.chat.completions.create(
        model=client.model,
        messages=COUNT["messages"],
        stream=True,
        temperature=0,
        **LONG_REQUEST,
    )
    for _, _chunk in zip(range(2), stream, strict=False):
        pass
    stream.close()
    assert eventually(lambda: fleet.has_stopped(before))
    assert fleet.generated() - before <= BEHIND_THE_END


@STREAMED
@pytest.mark.parametrize("n", [1, 2])
def test_a_stop_match_ends_generation(client: Client, fleet: Fleet, stream: bool, n: int) -> None:
    before = fleet.generated()
    response = client.ask(
        COUNT,
        stream=stream,
        stop=["12, 13"],
        n=n,
        temperature=0 if n == 1 else 0.001,
        **LONG_REQUEST,
    )
    used = response.usage.completion_tokens
    assert response.answer.content == COUNT["expect"]["content"].partition("12, 13")[0]
    assert eventually(lambda: fleet.has_stopped(before))
    assert fleet.generated() - before <= used + n * BEHIND_THE_END


def test_a_stop_match_in_the_frontend_ends_a_plain_workers_generation(fleet: Fleet) -> None:
    client = Client(fleet.frontend.url, "plain")
    client.ask(TRANSCRIPTS["plain_text"])  # the first request of a frontend builds what it needs
    before = fleet.generated(fleet.plain)
    response = client.ask(COUNT, stop=["12, 13"], **LONG_REQUEST)
    assert response.answer.content == COUNT["expect"]["content"].partition("12, 13")[0]
    assert eventually(lambda: fleet.has_stopped(before, fleet.plain))
    assert (
        fleet.generated(fleet.plain) - before <= response.usage.completion_tokens + BEHIND_THE_END
    )
