"""Finds the shortest stream with a difference: delta debugging of tokens, then parameters.

Source: Zeller and Hildebrandt, "Simplifying and Isolating Failure-Inducing Input", TSE 28(2), 2002.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import msgspec

from ...base.json_types import JsonObject
from ...base.limits import MAX_TRIALS
from ...postprocess.messages import PostprocessParams


class Trials:
    """Counts trials. differs: whether tokens with parameters still show the difference."""

    def __init__(self, differs: Callable[[list[int], PostprocessParams], bool]) -> None:
        self._differs = differs
        self.count = 0

    @property
    def over(self) -> bool:
        """Whether the limit is reached."""
        return self.count >= MAX_TRIALS

    def differ(self, token_ids: list[int], params: PostprocessParams) -> bool:
        """Whether this smaller stream still differs."""
        if self.over:
            return False
        self.count += 1
        return self._differs(token_ids, params)


def minimize(
    token_ids: list[int], params: PostprocessParams, trials: Trials
) -> tuple[list[int], PostprocessParams]:
    """Return the fewest tokens and the simplest parameters that still differ.

    Nothing more can be left out, no single token and no part of the parameters, unless the limit
    of trials was reached.
    """
    while True:
        before = token_ids, params
        token_ids = minimize_tokens(token_ids, params, trials)
        params = simplify(token_ids, params, trials)
        if (token_ids, params) == before or trials.over:
            return token_ids, params


def minimize_tokens(items: list[int], params: PostprocessParams, trials: Trials) -> list[int]:
    """Return a part of `items` that still differs, in which each token is needed."""
    parts = 2
    while len(items) > 1:
        size = -(-len(items) // parts)
        for start in range(0, len(items), size):
            rest = items[:start] + items[start + size :]
            if rest and trials.differ(rest, params):
                items, parts = rest, max(parts - 1, 2)
                break
        else:
            if parts >= len(items):
                break
            parts = min(2 * parts, len(items))
    return items


def simplify(token_ids: list[int], params: PostprocessParams, trials: Trials) -> PostprocessParams:
    """Return parameters that still differ, in which each part is needed."""
    while True:
        simpler = (found for found in simpler_params(params) if trials.differ(token_ids, found))
        found = next(simpler, None)
        if found is None:
            return params
        params = found


def simpler_params(params: PostprocessParams) -> Iterator[PostprocessParams]:
    """Yield parameters with one part less, the largest part first."""
    parser = params.parser
    plain = PostprocessParams(
        response_id=params.response_id,
        created=params.created,
        model=params.model,
        prompt_length=params.prompt_length,
        parser=parser,
    )
    for field in PostprocessParams.__struct_fields__:
        value = getattr(plain, field)
        if getattr(params, field) != value:
            yield msgspec.structs.replace(params, **{field: value})
    for tools in simpler_tools(parser.tools):
        yield _with_parser(params, tools=tools)
    for name in parser.chat_template_kwargs:
        left = {key: value for key, value in parser.chat_template_kwargs.items() if key != name}
        yield _with_parser(params, chat_template_kwargs=left)
    if not parser.include_reasoning:
        yield _with_parser(params, include_reasoning=True)
    if not parser.parallel_tool_calls:
        yield _with_parser(params, parallel_tool_calls=True)
    if parser.history_tool_calls:
        yield _with_parser(params, history_tool_calls=0)


def _with_parser(params: PostprocessParams, **fields: object) -> PostprocessParams:
    parser = msgspec.structs.replace(params.parser, **fields)
    return msgspec.structs.replace(params, parser=parser)


def simpler_tools(tools: Sequence[JsonObject]) -> Iterator[list[JsonObject]]:
    """Yield tools with one of them, or one part of a schema, less; one tool always remains."""
    for position, tool in enumerate(tools):
        if len(tools) > 1:
            yield [*tools[:position], *tools[position + 1 :]]
        function = tool.get("function")
        if not isinstance(function, dict):
            continue
        for name in function.keys() - {"name", "parameters"}:
            plain = {key: value for key, value in function.items() if key != name}
            yield [*tools[:position], {**tool, "function": plain}, *tools[position + 1 :]]
        for schema in simpler_schemas(function.get("parameters")):
            changed = {**tool, "function": {**function, "parameters": schema}}
            yield [*tools[:position], changed, *tools[position + 1 :]]


def simpler_schemas(schema: object) -> Iterator[JsonObject]:
    """Yield a schema with one keyword or property less."""
    if not isinstance(schema, dict):
        return
    for keyword in schema:
        if keyword not in ("type", "properties"):
            yield {key: value for key, value in schema.items() if key != keyword}
    properties = schema.get("properties")
    if not isinstance(properties, dict):
        return
    for name, part in properties.items():
        rest = {key: value for key, value in properties.items() if key != name}
        yield {**schema, "properties": rest}
        for simpler in simpler_schemas(part):
            yield {**schema, "properties": {**properties, name: simpler}}
