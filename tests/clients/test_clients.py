"""Every client against a real frontend: text, reasoning, tools, objects, errors."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from tests.clients.adapters import CLIENTS
from tests.clients.adapters.base import ClientAdapter
from tests.clients.adapters.instructor_chat import Instructor


class Conversation(NamedTuple):
    """A question, and what becomes of it after all calls; see transcripts/clients.jsonl."""

    question: str
    reasoning: list[str]
    content: str
    cities: list[str]


CONVERSATIONS = {
    "text": Conversation(
        "Say hello to the client.",
        ["A greeting will do."],
        "Hello, client! Grüße und 你好 👋🏽",
        [],
    ),
    "call": Conversation(
        "What is the weather in Paris, please?",
        ["I should look it up.", "That is warm."],
        "It is warm in Paris: 21 C and sunny.",
        ["Paris"],
    ),
    "two calls": Conversation(
        "What is the weather in Rome and in Oslo, please?",
        ["Two cities, two calls.", "Oslo is colder."],
        "Rome is warmer than Oslo.",
        ["Rome", "Oslo"],
    ),
    # The agent's answer is a call of its own tool.
    "agent": Conversation(
        "Use your tools: how is the weather in Lima?",
        [],
        "It is cloudy in Lima.",
        ["Lima"],
    ),
}
# More than the turns have: the stream came in pieces.
LEAST_PIECES = 5
CASES = [
    pytest.param(client, name, id=f"{client.label}: {name}")
    for client in CLIENTS
    for name in client.conversations
]
ALL = pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.label)


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize(("client", "name"), CASES)
def test_a_conversation(url: str, client: type[ClientAdapter], name: str, stream: bool) -> None:
    asked = CONVERSATIONS[name]
    answer = client(url).run(asked.question, stream=stream)
    assert answer.content.strip() == asked.content
    assert sorted(answer.calls, key=str) == sorted(
        (("get_weather", {"city": city}) for city in asked.cities), key=str
    )
    assert answer.reasoning == (asked.reasoning if client.reasoning else [])
    assert (answer.pieces >= LEAST_PIECES) == stream


@pytest.mark.parametrize(
    "client", [client for client in CLIENTS if client.structured], ids=lambda client: client.label
)
def test_an_object_of_a_type(url: str, client: type[ClientAdapter]) -> None:
    assert client(url).ask_person() == client.person


def test_an_object_that_grows(url: str) -> None:
    people = Instructor(url).stream_person()
    assert len(people) >= LEAST_PIECES
    assert people[-1].model_dump() == Instructor.person


def find_statuses(error: BaseException | None) -> list[Any]:
    """Return the HTTP statuses that an error, or what it was raised from, has."""
    found = []
    while error is not None:
        found += [getattr(error, "status_code", None)]
        error = error.__cause__ or error.__context__
    return found


@ALL
def test_a_bad_value_is_the_clients_own_error_and_names_the_field(
    url: str, client: type[ClientAdapter]
) -> None:
    with pytest.raises(Exception, match=f"(?i){client.bad_field}") as caught:
        client(url).ask_badly()
    assert type(caught.value).__name__ == client.error
    assert 400 in find_statuses(caught.value)
