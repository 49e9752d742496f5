"""The parts of Dynamo's objects that the worker and the frontend use, as Protocols.

Dynamo's binding has no usable types.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable
from typing import Protocol

import msgspec

from ...base.json_types import JsonObject
from ...postprocess.messages import KEY

GRAMMAR_WAITS = "tool_call_structural_tag_excludes_reasoning"
"""Dynamo's entry of a card that says whether grammars begin after the reasoning."""


class ModelType(Protocol):
    """The kinds of requests that a model serves."""

    def supports_chat(self) -> bool:
        """Whether the model serves chat completions."""


class ModelCard(Protocol):
    """A discovered model. Source: `dynamo.llm.ModelDeploymentCard`."""

    def name(self) -> str:
        """Return the name that clients use for the model."""

    def local_dir(self) -> str:
        """Return the folder of the model's files, without weights."""

    def runtime_config(self) -> JsonObject:
        """Return what the model's workers registered; `RuntimeConfig` has its types."""

    def model_type(self) -> ModelType:
        """Return the kinds of requests that the model serves."""


class RuntimeData(msgspec.Struct):
    """The engines' own entries of a card. worker_card: the text of a `WorkerCard`."""

    worker_card: object = msgspec.field(default=None, name=KEY)


class RuntimeConfig(msgspec.Struct):
    """The configuration that a model's workers registered. Source: `dynamo.llm.ModelRuntimeConfig`.

    context_length: in tokens. tool_call_parser, reasoning_parser: for Dynamo's own frontend.
    """

    context_length: int | None = None
    tool_call_parser: str | None = None
    reasoning_parser: str | None = None
    runtime_data: RuntimeData | None = None


def read_runtime_config(card: ModelCard) -> RuntimeConfig:
    """Return the typed configuration on a model's card."""
    return msgspec.convert(card.runtime_config(), RuntimeConfig)


class Context(Protocol):
    """The state of one request. Source: `dynamo.runtime.Context`."""

    def id(self) -> str:
        """Return the request's id."""

    def stop_generating(self) -> None:
        """Tell the worker to stop generating."""

    def is_stopped(self) -> bool:
        """Whether generation was stopped, here or because the client disconnected."""


class WorkerContext(Context, Protocol):
    """The state of one request in a worker."""

    def async_killed_or_stopped(self) -> Awaitable[bool]:
        """Wait until generation is stopped."""

    def detached(self, id: str) -> WorkerContext:  # noqa: A002 - Dynamo's name
        """Return a context with another id, which is stopped alone."""


class AnnotatedItem(Protocol):
    """One item of a routed engine's stream: an engine output, an error, or a comment."""

    def is_error(self) -> bool:
        """Whether the item is an error; `comments` has its text."""

    def comments(self) -> list[str] | None:
        """Return the texts of an error or a comment."""

    def data(self) -> JsonObject | None:
        """Return the engine output; None for a comment."""


class Endpoint(Protocol):
    """Dynamo's endpoint of workers. Source: `dynamo.runtime.Endpoint`."""

    async def register_endpoint_instance(self) -> None:
        """Put this process into discovery again."""

    async def unregister_endpoint_instance(self) -> None:
        """Take this process out of discovery; it serves the requests that still come."""


class Runtime(Protocol):
    """Dynamo's runtime. Source: `dynamo.runtime.DistributedRuntime`."""

    def endpoint(self, path: str) -> Endpoint:
        """Return the endpoint `namespace.component.endpoint`."""


class ModelInstance(Protocol):
    """The first worker of a model. Source: `dynamo.llm.ModelCardInstanceId`."""

    def triple(self) -> tuple[str, str, str]:
        """Return namespace, component and endpoint of the model's workers."""


class RoutedEngine(Protocol):
    """Sends requests to a model's workers. Source: `dynamo.llm.RoutedEngine`."""

    async def generate(
        self, request: JsonObject, *, context: Context
    ) -> AsyncIterator[AnnotatedItem | JsonObject]:
        """Route a preprocessed request and return the worker's stream.

        The engine outputs may come bare, as from Dynamo's `KvRouter`.
        """


class FrontendConfig(Protocol):
    """Dynamo's own flags. Source: `dynamo.frontend.frontend_args.FrontendConfig`."""

    @property
    def http_host(self) -> str:
        """The address on which the frontend listens."""

    @property
    def http_port(self) -> int:
        """Its port, as given."""

    @property
    def discovery_backend(self) -> str:
        """Through which workers are found: "etcd", "file" or others."""

    @property
    def interactive(self) -> bool:
        """Whether the terminal takes the place of HTTP."""

    @property
    def preprocess_workers(self) -> int:
        """Number of processes in which Dynamo's own chat processors would preprocess."""

    @property
    def kv_cache_block_size(self) -> int | None:
        """Tokens per block of the workers' caches; None to use their cards."""

    @property
    def exclude_tools_when_tool_choice_none(self) -> bool:
        """Whether the chat template is rendered without tools if the request forbids calls."""

    @property
    def migration_limit(self) -> int:
        """How often a request may move to another worker."""

    @property
    def trust_remote_code(self) -> bool:
        """Whether a tokenizer may run code from the model's folder."""


class ResponseSender(Protocol):
    """Dynamo's sink for the chunks of one response."""

    def send(self, chunk: object) -> None:
        """Send a chunk. Blocks while the frontend lags; raises RuntimeError if it is gone."""

    def close(self) -> None:
        """End the response, after all its chunks have been sent."""


class DynamoParserFlags(Protocol):
    """Dynamo's flags of a worker that name the parsers of its Rust frontend."""

    dyn_tool_call_parser: str | None
    dyn_reasoning_parser: str | None
