"""Keeps stop tokens that are text from the engine where a grammar holds the answer.

xgrammar never lets the model write such a token, or offers one that the grammar needs and then
refuses it, at which vLLM gives the request up. Post-processing ends the answer at it instead.
Special tokens are no text of a grammar, so engines end at them as ever.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

import msgspec

from ..base.json_types import JsonObject
from .messages import PostprocessParams

# The client's; those of the model's own files have a field of their own.
STOP_TOKENS = ("stop_token_ids", "stop_token_ids_visible")


def take_stop_tokens(
    request: JsonObject, params: PostprocessParams, is_special: Callable[[int], bool]
) -> PostprocessParams:
    """Return `params` with the stop tokens that `request` loses, if it has a grammar.

    request: Dynamo's `PreprocessedRequest`, checked. is_special: whether a token is no text.
    """
    stops = request.get("stop_conditions") or {}
    given = {field: stops[field] for field in STOP_TOKENS if stops.get(field)}
    if not given or not (request.get("sampling_options") or {}).get("guided_decoding"):
        return params
    kept = {field: [*filter(is_special, token_ids)] for field, token_ids in given.items()}
    request["stop_conditions"] = {**stops, **kept}
    taken = [*itertools.filterfalse(is_special, itertools.chain(*given.values()))]
    return msgspec.structs.replace(params, stop_token_ids=taken)
