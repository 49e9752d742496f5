"""When calls are held to a grammar of the model's own syntax: the same behind every edge.

The model card says when (`--dyn-structural-tag` of the worker), and Dynamo reads it as here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dynamo.frontend.structural_tag_policy import (
    ToolChoiceKind,
    effective_tool_strict,
    runtime_structural_tag_excludes_reasoning,
    runtime_structural_tag_options,
    should_attempt_structural_tag,
)
from dynamo.frontend.utils import legacy_guided_decoding

from ...parsers.base import ParserNames
from ...parsers.json_types import JsonObject
from ...parsers.parser_lookup import tool_format
from ...parsers.structural_tag import Choice
from .chat_request import ChatRequest, Tool
from .guided_decoding import build_guided_decoding
from .tool_schemas import standard_parameters

ANY_OBJECT: JsonObject = {"type": "object"}


class CallPolicy:
    """Replaces the grammar that an edge has found for a request's tools.

    runtime_config: the model card's. names: the parsers that are configured for the model.
    engine: of the workers, if they say.

    Formats without a grammar here: `auto` is not constrained, and a forced call as the edge does.
    """

    def __init__(self, runtime_config: JsonObject, names: ParserNames, engine: str | None) -> None:
        self._mode, self._scope, self._schema = runtime_structural_tag_options(runtime_config)
        config = runtime_config.get("structural_tag") or {}
        self._any_order = bool(config.get("tool_arguments_any_order"))
        format_ = tool_format(names.tool_call) if names.tool_call else None
        self._call_tags = None if format_ is None else format_.call_tags
        # A grammar of calls alone forbids reasoning, unless the engine waits for its end.
        self._forces = (
            names.reasoning is None
            or engine == "sglang"
            or runtime_structural_tag_excludes_reasoning(runtime_config)
        )

    @property
    def replaces_all(self) -> bool:
        """Whether no grammar of an edge for tools would be used."""
        return self._mode != "on" or (self._call_tags is not None and self._forces)

    def constrain(
        self, request: ChatRequest, find: Callable[[], JsonObject | None]
    ) -> JsonObject | None:
        """Return Dynamo's `guided_decoding` for a request. find: returns that of the edge."""
        if not request.tools or request.tool_choice == "none":
            return find()
        if not request.forces_call and _has_own_constraint(request):
            return find()
        tag = self._build_tag(request, request.tools)
        if tag is not None:
            return {"structural_tag": tag}
        # An edge may leave a forced call to a parser that has no grammar for it (vLLM's Hermes).
        return (find() or build_guided_decoding(request)) if request.forces_call else None

    def _build_tag(self, request: ChatRequest, tools: Sequence[Tool]) -> JsonObject | None:
        forced = request.forces_call
        if self._call_tags is None or (forced and not self._forces):
            return None
        kind: ToolChoiceKind = "required" if forced else "auto"
        single = request.parallel_tool_calls is False
        if not should_attempt_structural_tag(
            mode=self._mode,
            scope=self._scope,
            tool_choice_kind=kind,
            has_tools=True,
            any_explicit_strict=any(tool.function.strict is True for tool in tools),
            parallel_tool_calls_explicitly_false=single,
        ):
            return None
        name = request.named_function
        named = [tool for tool in tools if name in (None, tool.function.name)]
        choice: Choice = "any"
        if forced:
            choice = "one" if single or name is not None else "some"
        return self._call_tags.build_tag(
            [(tool.function.name, self._read_schema(tool)) for tool in named],
            choice,
            any_order=self._any_order,
        )

    def _read_schema(self, tool: Tool) -> JsonObject:
        """Return what the arguments are held to: any object for `strict: false`."""
        function = tool.function
        if not function.parameters or not effective_tool_strict(function.strict, self._schema):
            return ANY_OBJECT
        return standard_parameters(function.parameters)


def _has_own_constraint(request: ChatRequest) -> bool:
    """Whether the client constrains the message itself."""
    response_format = request.response_format
    constrained = response_format is not None and response_format.type != "text"
    return constrained or legacy_guided_decoding(request.raw) is not None
