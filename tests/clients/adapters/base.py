"""What the tests ask of every client, and what they look at."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

MODEL = "tiny"
KEY = "none"
WEATHER = {
    "Paris": "21 C and sunny in Paris",
    "Rome": "19 C and windy in Rome",
    "Oslo": "4 C and rainy in Oslo",
    "Lima": "17 C and cloudy in Lima",
}
TOOL_NAME = "get_weather"
TOOL_DESCRIPTION = "Return the weather of a city."
TOOL_SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
    "additionalProperties": False,
}
# Beyond what OpenAI allows: the frontend answers 400.
BAD_VALUE = 7.0


@dataclass
class Answer:
    """What a client shows of a conversation: one turn, or one more with the tools' results.

    reasoning: of each turn that shows some. pieces: events of a stream that brought text or
    arguments. status: why the last turn ended, in the client's words.
    """

    reasoning: list[str] = field(default_factory=list)
    content: str = ""
    calls: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    pieces: int = 0

    def add_reasoning(self, text: str | None) -> None:
        """Keep the reasoning of a turn; the parsers leave its white space as it was."""
        if text and text.strip():
            self.reasoning.append(text.strip())

    def add_call(self, name: str, arguments: str | dict[str, Any]) -> str:
        """Keep a call, and return its result."""
        values = json.loads(arguments) if isinstance(arguments, str) else arguments
        self.calls.append((name, values))
        return WEATHER[values["city"]]


class ClientAdapter(ABC):
    """One client. The class attributes are the client's row in docs/clients.md.

    url: of the frontend, without `/v1`.
    """

    label: ClassVar[str]
    package: ClassVar[str]
    api: ClassVar[str] = "/v1/chat/completions"
    # Where a program finds reasoning; empty if the client has no place for it.
    reasoning: ClassVar[str] = ""
    # How a program asks for an object of a type; empty if that was not tried.
    structured: ClassVar[str] = ""
    # Which object that is.
    person: ClassVar[dict[str, Any]] = {"name": "Alice", "age": 31}
    # The names of those of the tests' conversations that the client can have.
    conversations: ClassVar[tuple[str, ...]] = ("text", "call", "two calls")
    # The name of what is raised for a bad value, and the field that its text names.
    error: ClassVar[str] = "BadRequestError"
    bad_field: ClassVar[str] = "temperature"

    def __init__(self, url: str) -> None:
        self.url = url
        self.base_url = f"{url}/v1"

    @abstractmethod
    def run(self, question: str, *, stream: bool) -> Answer:
        """Ask with the tool `get_weather` at hand, call it, and ask again until there is text."""

    @abstractmethod
    def ask_badly(self) -> None:
        """Ask with `BAD_VALUE` for `bad_field`; raises the client's own error."""

    def ask_person(self) -> dict[str, Any]:
        """Return the person of `structured`."""
        raise NotImplementedError


def user(content: object) -> dict[str, Any]:
    """Return a user's message."""
    return {"role": "user", "content": content}


def get_weather(city: str) -> str:
    """Return the weather of a city.

    Args:
        city: its name.
    """
    return WEATHER[city]


def count(pieces: Sequence[object]) -> int:
    """Return how many of `pieces` hold something."""
    return sum(bool(piece) for piece in pieces)
