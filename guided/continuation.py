"""The request with which an engine goes on after tokens that it, or another one, has generated."""

from __future__ import annotations

from collections.abc import Sequence

from ..base.json_types import JsonObject


def go_on_after(
    request: JsonObject,
    prompt: Sequence[int],
    generated: Sequence[int],
    guided_decoding: JsonObject | None,
    *,
    at_once: bool = False,
) -> JsonObject:
    """Return `request` so that `generated` tokens follow its `prompt`.

    request: Dynamo's `PreprocessedRequest`. guided_decoding: what constrains the rest.
    at_once: it does so from the first token on. Otherwise the engine waits for the end of a thought
        where its own parser sees none.
    """
    stops = dict(request.get("stop_conditions") or {})
    for name in ("max_tokens", "min_tokens"):
        if stops.get(name) is not None:
            stops[name] = max(0, stops[name] - len(generated))
    sampling = request.get("sampling_options") or {}
    # The fields that vLLM and SGLang read.
    ended = {"reasoning_ended": True, "require_reasoning": False} if at_once else {}
    return {
        **request,
        **ended,
        "token_ids": [*prompt, *generated],
        "stop_conditions": stops,
        "sampling_options": {**sampling, "guided_decoding": guided_decoding},
    }
