"""Decides when a grammar of the model's own syntax constrains calls, in servers and batches.

Grammars have Dynamo's form of guided decoding. A forced tool call is constrained to plain JSON,
unless `CallPolicy` finds a grammar of the model's own syntax. `ParserRequest.json_calls` tells the
parsers (docs/decisions/0004).

`after_reasoning` lets a model reason before a constrained answer, with one grammar for both, so
engines need not know where reasoning ends, and all give the same answer.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import msgspec

from ..base.errors import RequestError
from ..base.json_types import JsonObject, check_nesting
from ..parsers.argument_grammar import exactly, json_value
from ..parsers.base import ParserNames
from ..parsers.format import Format, State
from ..parsers.linear_parsers import spell_markers
from ..parsers.parser_lookup import tool_format
from ..parsers.structural_tag import build_tag
from .client_schemas import standardize
from .guided_request import GUIDED_FIELDS, GuidedRequest, Tool

EMPTY_OBJECT = r"\{\}"
# Keywords without any requirement for an object without properties.
_SAYS_NOTHING = frozenset(
    "title description $comment default examples deprecated readOnly writeOnly".split()
)

Standardize: TypeAlias = Callable[[JsonObject], JsonObject]
"""Returns a tool's schema in the terms that engines know; the result is not modified."""


class _Grammar(msgspec.Struct):
    """The part of Dynamo's `guided_decoding` that shows a forced call's syntax."""

    json: object = None
    regex: object = None


def build_guided_decoding(
    request: GuidedRequest, standardize: Standardize = standardize
) -> JsonObject | None:
    """Return Dynamo's `guided_decoding`; None for an unconstrained answer.

    `check_constraints` has ensured that there is at most one constraint. A response format
    applies to the message, which a forced call leaves empty.
    """
    return (
        _constrain_forced_calls(request, standardize)
        or find_explicit(request)
        or _constrain_response(request)
    )


def find_explicit(request: GuidedRequest) -> JsonObject | None:
    """Return the constraint of the `guided_` fields."""
    for field in GUIDED_FIELDS:
        value = getattr(request, field)
        if value is None:
            continue
        found: JsonObject = {field.removeprefix("guided_"): value}
        if request.guided_whitespace_pattern is not None:
            found["whitespace_pattern"] = request.guided_whitespace_pattern
        return found
    return None


def constrains_to_json(guided_decoding: JsonObject | None) -> bool:
    """Whether the grammar of a forced call is its JSON schema, not the model's own syntax.

    A regular expression is Dynamo's grammar for a named call without arguments.
    """
    grammar = msgspec.convert(guided_decoding or {}, _Grammar)
    return grammar.json is not None or grammar.regex == EMPTY_OBJECT


def _constrain_response(request: GuidedRequest) -> JsonObject | None:
    response_format = request.response_format
    match response_format and response_format.type:
        case "json_object":
            return {"json": {"type": "object"}}
        case "json_schema" if response_format and response_format.json_schema:
            return {"json": response_format.json_schema.schema}
        case "structural_tag":
            return {"structural_tag": request.raw["response_format"]}
    return None


def _constrain_forced_calls(request: GuidedRequest, standardize: Standardize) -> JsonObject | None:
    if not request.tools or not request.forces_call:
        return None
    name = request.named_function
    tools = [tool for tool in request.tools if name in (None, tool.function.name)]
    schemas = [_copy_parameters(tool, standardize) for tool in tools]
    if name is not None:
        [schema] = schemas
        # Engines compile the schema of an empty object to a grammar with endless white space.
        return {"regex": EMPTY_OBJECT} if admits_only_empty_object(schema) else {"json": schema}
    names = [tool.function.name for tool in tools]
    single = request.parallel_tool_calls is False
    return {"json": _build_calls_schema(names, schemas, single=single)}


def admits_only_empty_object(schema: JsonObject) -> bool:
    """Whether a schema obviously accepts `{}` and nothing else."""
    plain = {word: value for word, value in schema.items() if word not in _SAYS_NOTHING}
    least, most = plain.pop("minProperties", 0), plain.pop("maxProperties", 0)
    return (
        plain.pop("type", None) == "object"
        and plain.pop("additionalProperties", None) is False
        and plain.pop("properties", {}) == {}
        and plain.pop("required", []) == []
        and type(least) is int
        and least == 0
        and type(most) is int
        and most >= 0
        and not plain
    )


def _copy_parameters(tool: Tool, standardize: Standardize) -> JsonObject:
    """Return a tool's schema in the terms that engines know, for a grammar."""
    parameters = tool.function.parameters
    if not parameters:
        return {"type": "object", "properties": {}}
    return copy.deepcopy(standardize(parameters))


def _build_calls_schema(
    names: Sequence[str], schemas: Sequence[JsonObject], *, single: bool
) -> JsonObject:
    """Return the schema of an array of calls. schemas: of the functions; modified.

    Definitions move to the top, where `$ref` expects them.
    """
    definitions: JsonObject = {}
    calls = []
    for position, (name, parameters) in enumerate(zip(names, schemas, strict=True)):
        _move_definitions(parameters, definitions, f"tools[{position}].function.parameters")
        properties = {
            "name": {"type": "string", "enum": [name]},
            "parameters": parameters,
        }
        calls.append({"properties": properties, "required": ["name", "parameters"]})
    schema: JsonObject = {
        "type": "array",
        "minItems": 1,
        "items": {"type": "object", "anyOf": calls},
    }
    schema |= definitions
    if single:
        schema["maxItems"] = 1
    return schema


def _move_definitions(parameters: JsonObject, definitions: JsonObject, field: str) -> None:
    """Move one tool's definitions to the common ones, by the keyword that holds them.

    field: the JSON path of `parameters`.
    """
    for word in ("$defs", "definitions"):
        for name, definition in parameters.pop(word, {}).items():
            if definitions.setdefault(word, {}).setdefault(name, definition) != definition:
                where = f"{field}.{word}.{name}"
                raise RequestError(where, "must be the same definition in all tools")


ANY_OBJECT: JsonObject = {"type": "object"}


def find_call_format(
    names: ParserNames, read_tokens: Callable[[], Collection[str]] = tuple
) -> Format | None:
    """Return the format of calls; None if there is no grammar for it.

    read_tokens: returns the vocabulary's added tokens, which decide on the markers of a format
        with a suffix. Called for such a format only.
    """
    format_ = tool_format(names.tool_call) if names.tool_call else None
    if format_ is None or format_.spelling is None:
        return None
    return settle_markers(format_, read_tokens)


def settle_markers(format_: Format, read_tokens: Callable[[], Collection[str]]) -> Format:
    """Return the format with the markers of a vocabulary. read_tokens: see above."""
    return format_ if format_.suffix is None else spell_markers(format_, read_tokens())


@dataclass(frozen=True, kw_only=True)
class CallPolicy:
    """Decides on the grammar of a request's answer.

    calls: the format of the model's calls. Without it `auto` is unconstrained.
    enabled: whether grammars may use the model's own syntax.
    always: constrain `auto` even if the request does not ask for it.
    strict: constrain arguments to their schema despite `strict: false`.
    any_order: arguments may be in another order than in the schema.
    reasoning: the markers of the reasoning that each grammar must let pass, by `after_reasoning`;
        None if the engine does that, or the model has none.
    standardize: as for `build_guided_decoding`.
    """

    calls: Format | None = None
    enabled: bool = True
    always: bool = False
    strict: bool = False
    any_order: bool = False
    reasoning: ReasoningTags | None = None
    standardize: Standardize = standardize

    @property
    def replaces_all(self) -> bool:
        """Whether no other grammar for tools would apply."""
        return not self.enabled or self.calls is not None

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
        if self.calls is None or not self.enabled:
            return False
        return (
            request.forces_call
            or self.always
            or request.parallel_tool_calls is False
            or any(tool.function.strict is True for tool in tools)
        )

    def _build_tag(self, request: GuidedRequest, tools: Sequence[Tool]) -> JsonObject | None:
        if self.calls is None or not self._tags_calls(request, tools):
            return None
        name = request.named_function
        named = [tool for tool in tools if name in (None, tool.function.name)]
        return build_tag(
            self.calls,
            [(tool.function.name, self._read_schema(tool)) for tool in named],
            forced=request.forces_call,
            single=request.parallel_tool_calls is False or name is not None,
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


# Text that models write between reasoning and answer.
_GAP: JsonObject = {"type": "regex", "pattern": "\\n{0,2}"}


class ReasoningTags(NamedTuple):
    """The markers around reasoning: text follows each of `begins`, then one of `ends`.

    decided: whether a model reasons is known before its first token. after: the text after the end.
    content: the text after that, before content.
    """

    begins: tuple[str, ...]
    ends: tuple[str, ...]
    decided: bool
    after: str = ""
    content: str = ""


def read_reasoning_tags(format_: Format) -> ReasoningTags | None:
    """Return the texts around a format's reasoning; None if no text begins it."""
    if format_.thought is not None:
        begin, end, after, content = format_.thought
        return ReasoningTags((begin,), (end,), decided=False, after=after, content=content)
    states = format_.states
    outside = {State.IGNORED} & {format_.initial_state}
    begins = [*_lead_to(format_, *(outside or {State.START}), State.REASONING)]
    begins += [
        opening + begin
        for opening in _lead_to(format_, State.START, State.REASONING_OPENED)
        for begin in _lead_to(format_, State.REASONING_OPENED, State.REASONING)
    ]
    ends = _lead_to(format_, State.REASONING, State.START, State.CONTENT, *outside)
    if State.REASONING not in states or not begins or not ends:
        return None
    return ReasoningTags(tuple(begins), tuple(ends), format_.thinks_by_default)


def _lead_to(format_: Format, source: State, *targets: State) -> list[str]:
    """Return the markers of a state that lead to others and precede no reused text."""
    markers = format_.states.get(source, {})
    return [marker for marker, target in markers.items() if target in targets]


def leaves_text_free(guided_decoding: JsonObject) -> bool:
    """Whether a grammar allows any text, also reasoning, before what it constrains.

    Raises `RequestError` for a constraint that a structural tag cannot express.
    """
    return to_tag_format(guided_decoding).get("type") == "triggered_tags"


def after_reasoning(
    guided_decoding: JsonObject, tags: ReasoningTags, *, opened: bool, may_stop: bool = False
) -> JsonObject:
    """Return `guided_decoding` for reasoning followed by a constrained answer.

    opened: whether the model reasons from its first token. If not, it may begin to reason or
        to answer, unless that is decided before.
    may_stop: whether a stop token may end the reasoning. Engines allow one only where the grammar
        may end.
    Raises `RequestError` for a constraint that a structural tag cannot express.
    """
    if leaves_text_free(guided_decoding) or (tags.decided and not opened):
        return guided_decoding
    answer = to_tag_format(guided_decoding)
    begins = ("",) if opened else tags.begins
    reasoned = [
        {"type": "tag", "begin": begin, "content": {"type": "any_text"}, "end": list(tags.ends)}
        for begin in begins
    ]
    either = reasoned[0] if len(reasoned) == 1 else {"type": "or", "elements": reasoned}
    is_content = tags.content and not guided_decoding.get("structural_tag")
    parts = [
        either,
        *([exactly(tags.after)] if tags.after else ()),
        _GAP,
        *([exactly(tags.content)] if is_content else ()),
    ]
    before: JsonObject = {"type": "sequence", "elements": parts}
    if not opened:
        before = {"type": "optional", "content": before}
    whole: JsonObject = {"type": "sequence", "elements": [before, answer]}
    if may_stop:
        whole = {"type": "or", "elements": [whole, *_stop_reasoning(begins, tags.ends)]}
    return as_guided_decoding(whole)


def _stop_reasoning(begins: Sequence[str], ends: Sequence[str]) -> list[JsonObject]:
    """Return the grammars of reasoning without its end."""
    text: JsonObject = {"type": "any_text", "excludes": list(ends)}
    return [
        {"type": "sequence", "elements": [exactly(begin), text]} if begin else text
        for begin in begins
    ]


def as_guided_decoding(format_: JsonObject) -> JsonObject:
    """Return Dynamo's `guided_decoding` for the `format` of a structural tag."""
    return {"structural_tag": {"type": "structural_tag", "format": format_}}


_KINDS = frozenset({"json", "regex", "grammar", "choice", "structural_tag"})


def read_schema(schema: object) -> object:
    """Return a schema, given as JSON or text, as JSON; {} for true, which accepts everything."""
    read = msgspec.json.decode(check_nesting(schema)) if isinstance(schema, str) else schema
    return {} if read is True else read


def to_tag_format(guided_decoding: JsonObject) -> JsonObject:
    """Return any constraint as the `format` of a structural tag.

    guided_decoding: in Dynamo's form, with one constraint.
    Raises `RequestError` for a structural tag of an unknown form.
    """
    kind, value = next(
        (kind, value)
        for kind, value in guided_decoding.items()
        if kind in _KINDS and value is not None
    )
    match kind:
        case "json":
            return json_value(read_schema(value))
        case "regex":
            return {"type": "regex", "pattern": value}
        case "grammar":
            return {"type": "grammar", "grammar": value}
        case "choice":
            texts = [{"type": "const_string", "value": text} for text in value]
            return {"type": "or", "elements": texts}
        case _:
            return _read_tag(value)


def _read_tag(tag: JsonObject) -> JsonObject:
    """Return the format of a structural tag, including the older form with `structures`."""
    if isinstance(tag.get("format"), dict):
        found: JsonObject = tag["format"]
        return found
    structures, triggers = tag.get("structures"), tag.get("triggers")
    try:
        tags = [
            {
                "type": "tag",
                "begin": part["begin"],
                "content": {"type": "json_schema", "json_schema": part.get("schema") or {}},
                "end": part["end"],
            }
            for part in structures or []
        ]
    except (TypeError, KeyError, AttributeError):
        tags = []
    if not tags or not isinstance(triggers, list):
        allowed = "a structural tag, with `format`, or with `structures` and `triggers`"
        raise RequestError.wrong("response_format", tag, allowed)
    return {"type": "triggered_tags", "triggers": triggers, "tags": tags}
