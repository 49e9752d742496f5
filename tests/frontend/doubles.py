"""Stand-ins for Dynamo's card, context and routed engine."""

from __future__ import annotations

import argparse
from collections.abc import AsyncIterator, Sequence
from types import SimpleNamespace
from typing import Any

from backedge.base.json_types import JsonObject
from backedge.engines.dynamo.types import ModelType
from backedge.frontend.chat_model import Deployment

from tests.support import TINY_MODEL


class Annotated:
    """One item of a stream."""

    def __init__(self, data: JsonObject | None = None, error: str | None = None) -> None:
        self._data, self._error = data, error

    def data(self) -> JsonObject | None:
        return self._data

    def is_error(self) -> bool:
        return self._error is not None

    def comments(self) -> list[str] | None:
        return None if self._error is None else [self._error]


class Context:
    """A request that nobody has stopped yet."""

    stopped = False

    def id(self) -> str:
        return "request-1"

    def stop_generating(self) -> None:
        self.stopped = True

    def is_stopped(self) -> bool:
        return self.stopped


class Engine:
    """Yields what it is given, raises the exceptions among it, and keeps the requests."""

    def __init__(self, outputs: Sequence[Any]) -> None:
        self._outputs = outputs
        self.requests: list[JsonObject] = []

    async def generate(self, request: JsonObject, *, context: object) -> AsyncIterator[Annotated]:
        self.requests.append(request)
        return self._stream()

    async def _stream(self) -> AsyncIterator[Annotated]:
        for output in self._outputs:
            if isinstance(output, Exception):
                raise output
            yield output if isinstance(output, Annotated) else Annotated(output)


class Card:
    """The card of the example model."""

    def __init__(self, registered: JsonObject | None = None, *, chats: bool = True) -> None:
        self._registered = registered or {}
        self._chats = chats

    def name(self) -> str:
        return "tiny"

    def local_dir(self) -> str:
        return str(TINY_MODEL)

    def runtime_config(self) -> JsonObject:
        return self._registered

    def model_type(self) -> ModelType:
        return Chats(self._chats)


class Instance:
    """The first worker of a model."""

    def triple(self) -> tuple[str, str, str]:
        return "dynamo", "backend", "generate"


def deployment(engine: Any, runtime: Any = None, migration_limit: int = 0) -> Deployment:
    """Return the example model behind `engine`."""
    config: Any = SimpleNamespace(migration_limit=migration_limit)
    return Deployment(Instance(), Card(), engine, config, argparse.Namespace(), runtime)


class Chats:
    """A model type."""

    def __init__(self, chats: bool) -> None:
        self._chats = chats

    def supports_chat(self) -> bool:
        return self._chats
