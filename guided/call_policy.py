"""Decides when a grammar of the model's own syntax constrains calls, in servers and batches."""

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
    """Return the syntax of a format's calls; None if the format has no grammar for it."""
    format_ = tool_format(names.tool_call) if names.tool_call else None
    return None if format_ is None else format_.call_tags


@dataclass(frozen=True, kw_only=True)
class CallPolicy:
    """Decides on the grammar of a request's answer.

    call_tags: of the model's format. Without them `auto` is unconstrained.
    enabled: whether grammars may use the model's own syntax.
    always: constrain `auto` even if the request does not ask for it.
    strict: constrain arguments to their schema despite `strict: false`.
    any_order: arguments may be in another order than in the schema.
    forces: whether forced calls may have a grammar: it allows reasoning, or the model has none.
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
        """Whether no other grammar for tools would apply."""
        return not self.enabled or (self.call_tags is not None and self.forces)

    def constrains(self, request: GuidedRequest) -> bool:
        """Whether the answer will have a grammar, provided it can express the tools' names.

        Reads no schemas.
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

        find: computes another preprocessor's, which `build_guided_decoding` replaces.
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
        # An engine may leave a forced call to a parser without a grammar for it (vLLM's Hermes).
        return (find() or build()) if request.forces_call else None

    def _tags_calls(self, request: GuidedRequest, tools: Sequence[Tool]) -> bool:
        """Whether the model's own syntax constrains calls, by Dynamo's rules."""
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
        """Return the schema for the arguments: any object for `strict: false`."""
        function = tool.function
        if not function.parameters or (function.strict is False and not self.strict):
            return ANY_OBJECT
        return self.standardize(function.parameters)


def _has_own_constraint(request: GuidedRequest) -> bool:
    """Whether the client constrains the message itself."""
    response_format = request.response_format
    constrained = response_format is not None and response_format.type != "text"
    return constrained or find_explicit(request) is not None
