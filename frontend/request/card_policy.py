"""Reads from a model's card when calls are held to a grammar, as Dynamo reads it."""

from __future__ import annotations

import msgspec
from dynamo.frontend.structural_tag_policy import (
    runtime_structural_tag_excludes_reasoning,
    runtime_structural_tag_options,
)

from ...base.json_types import JsonObject
from ...guided.call_policy import CallPolicy, find_call_tags
from ...parsers.base import ParserNames
from .tool_schemas import standard_parameters


class StructuralTagOptions(msgspec.Struct):
    """The options that Dynamo's own functions do not read."""

    tool_arguments_any_order: object = False


class CardOptions(msgspec.Struct):
    """The part of a card's configuration that decides about grammars of calls."""

    structural_tag: StructuralTagOptions | None = None


def read_call_policy(
    runtime_config: JsonObject, names: ParserNames, engine: str | None
) -> CallPolicy:
    """Return the policy of a model (its workers' `--dyn-structural-tag`).

    runtime_config: the card's. names: the parsers that are configured for the model. engine: of
        the workers, if known.
    """
    mode, scope, schema = runtime_structural_tag_options(runtime_config)
    tag = msgspec.convert(runtime_config, CardOptions).structural_tag or StructuralTagOptions()
    return CallPolicy(
        call_tags=find_call_tags(names),
        enabled=mode == "on",
        always=scope == "always",
        strict=schema == "strict",
        any_order=bool(tag.tool_arguments_any_order),
        # A grammar of calls would forbid reasoning, unless the engine waits for its end.
        forces=(
            names.reasoning is None
            or engine == "sglang"
            or runtime_structural_tag_excludes_reasoning(runtime_config)
        ),
        standardize=standard_parameters,
    )
