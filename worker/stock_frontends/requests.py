"""Recognizes a stock frontend's requests and derives their post-processing parameters."""

from __future__ import annotations

from ...base.errors import RequestError
from ...base.json_types import JsonObject
from ...postprocess.messages import KEY, PostprocessParams
from ...tokenization.detokenizer import DetokenizerOptions
from ..request_check import check_params


def read_stock_params(request: JsonObject, request_id: str) -> PostprocessParams | None:
    """Return the parameters for post-processing; None if the request must pass unchanged.

    request: Dynamo's `PreprocessedRequest`, checked by `check_engine_fields`.
    """
    if not _is_of_rust(request):
        return None
    stops = request.get("stop_conditions") or {}
    sampling = request.get("sampling_options") or {}
    output = request.get("output_options") or {}
    token_ids = request.get("token_ids") or []
    skip = output.get("skip_special_tokens")
    params = PostprocessParams(
        response_id=request_id,
        created=0,
        model=request.get("model") or "",
        prompt_length=len(token_ids),
        n=sampling.get("n") or 1,
        stop=stops.get("stop") or [],
        include_stop_str_in_output=bool(sampling.get("include_stop_str_in_output")),
        min_tokens=stops.get("min_tokens") or 0,
        detokenizer=DetokenizerOptions(skip_special_tokens=skip is None or bool(skip)),
    )
    try:
        check_params(params, len(token_ids))
    except RequestError:
        return None  # the frontend accepted this, so it must answer it
    return params


def _is_of_rust(request: JsonObject) -> bool:
    """Whether Dynamo's Rust frontend sent the request and reads the `text` of its chunks.

    It names the model card. Python frontends do not: they read tokens. So does Backedge's own
    frontend, which post-processes by itself if it cannot read the worker's card.
    """
    extra_args = request.get("extra_args") or {}
    if not request.get("mdc_sum") or KEY in extra_args:
        return False
    if "vllm_tito" in extra_args or request.get("jail_seed"):
        return False  # the client wants tokens, so the frontend itself holds back their text
    return not (request.get("stop_conditions") or {}).get("stop_token_ids_visible")
