"""When calls are held to a grammar of the model's own syntax: the same for servers and batches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..base.json_types import JsonObject
from ..parsers.base import ParserNames
from ..parsers.parser_lookup import tool_format
from ..parsers.structural_tag import CallTags, Choice
from .guided_decoding import Standardize, build_guided_decoding, find_explicit
from .guided_request import GuidedRequest, Tool
from .standard_schema import standardize

ANY_OBJECT: JsonObject = {"type": "object"}


def find_call_tags(names: ParserNames) -> CallTags | None:
    """Return how the format of calls is written; None if there is none, or no grammar of it."""
    format_ = tool_format(names.tool_call) if names.tool_call else None
    return None if format_ is None else format_.call_tags


@dataclass(frozen=True, kw_only=True)
class CallPolicy:
    """Decides on the grammar of a request's answer.

    call_tags: of the model's format. Without them `auto` is not constrained.
    enabled: whether the model's own syntax is used for grammars at all.
    always: for `auto` as well where nothing in the request asks for it.
    strict: holds arguments to their schema in spite of `strict: false`.
    any_order: arguments may come in another order than the schema has them.
    forces: whether a grammar of forced calls leaves room for reasoning, or there is none.
    standardize: as for `build_guided_decoding`.
    """

    call_tags: CallTags | None = None
    enabled: bool = True
    always: bool = False
    strict: bool = False
    any_order: bool = False
    forces: bool = True
    standardize: Standardize = standardize

    @property
    def replaces_all(self) -> bool:
        """Whether no other grammar for tools would be used."""
        return not self.enabled or (self.call_tags is not None and self.forces)

    def constrains(self, request: GuidedRequest) -> bool:
        """Whether the answer will have a grammar, if the names of the tools can be written in one.

        It reads no schemas.
        """
        return _has_own_constraint(request) or (
            bool(request.tools)
            and request.tool_choice != "none"
            and (request.forces_call or self._tags_calls(request, request.tools or []))
        )

    def constrain(
        self, request: GuidedRequest, find: Callable[[], JsonObject | None] | None = None
    ) -> JsonObject | None:
        """Return Dynamo's `guided_decoding` for a request.

        find: returns that of another preprocessor, which `build_guided_decoding` replaces.
        """

        def build() -> JsonObject | None:
            return build_guided_decoding(request, self.standardize)

        find = find or build
        if not request.tools or request.tool_choice == "none":
            return find()
        if not request.forces_call and _has_own_constraint(request):
            return find()
        tag = self._build_tag(request, request.tools)
        if tag is not None:
            return {"structural_tag": tag}
        # An edge may leave a forced call to a parser that has no grammar for it (vLLM's Hermes).
        return (find() or build()) if request.forces_call else None

    def _tags_calls(self, request: GuidedRequest, tools: Sequence[Tool]) -> bool:
        """Whether calls are held to the model's own syntax, by Dynamo's rules."""
        if self.call_tags is None or not self.enabled:
            return False
        if request.forces_call:
            return self.forces
        return (
            self.always
            or request.parallel_tool_calls is False
            or any(tool.function.strict is True for tool in tools)
        )

    def _build_tag(self, request: GuidedRequest, tools: Sequence[Tool]) -> JsonObject | None:
        if self.call_tags is None or not self._tags_calls(request, tools):
            return None
        name = request.named_function
        named = [tool for tool in tools if name in (None, tool.function.name)]
        choice: Choice = "any"
        if request.forces_call:
            single = request.parallel_tool_calls is False
            choice = "one" if single or name is not None else "some"
        return self.call_tags.build_tag(
            [(tool.function.name, self._read_schema(tool)) for tool in named],
            choice,
            any_order=self.any_order,
        )

    def _read_schema(self, tool: Tool) -> JsonObject:
        """Return what the arguments are held to: any object for `strict: false`."""
        function = tool.function
        if not function.parameters or (function.strict is False and not self.strict):
            return ANY_OBJECT
        return self.standardize(function.parameters)


def _has_own_constraint(request: GuidedRequest) -> bool:
    """Whether the client constrains the message itself."""
    response_format = request.response_format
    constrained = response_format is not None and response_format.type != "text"
    return constrained or find_explicit(request) is not None
