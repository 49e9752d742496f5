"""Dynamo's engine outputs, whole and with all that may be missing."""

import pytest
from backedge.base.errors import ProtocolError
from backedge.base.limits import MAX_ERROR
from backedge.postprocess.engine_output import engine_error, parse_engine_output
from backedge.postprocess.messages import Chunk, EngineLogprob

WHOLE = {
    "index": 2,
    "token_ids": [5, 6],
    "log_probs": [-0.5, -1.5],
    "top_logprobs": [
        [{"rank": 1, "token_id": 5, "token": "a", "logprob": -0.5, "bytes": None}],
        [{"rank": None, "token_id": 9, "logprob": float("-inf")}, {"logprob": -2}],
    ],
    "finish_reason": "stop",
    "stop_reason": 6,
    "completion_usage": {
        "prompt_tokens": 11,
        "completion_tokens": 2,
        "prompt_tokens_details": {"cached_tokens": 4},
    },
}


def test_a_whole_output():
    assert parse_engine_output(WHOLE) == Chunk(
        index=2,
        token_ids=[5, 6],
        finish_reason="stop",
        stop_reason=6,
        logprobs=[-0.5, -1.5],
        top_logprobs=[
            [EngineLogprob(5, 1, -0.5)],
            [EngineLogprob(9, None, float("-inf")), EngineLogprob(None, None, -2.0)],
        ],
        prompt_tokens=11,
        cached_tokens=4,
    )


@pytest.mark.parametrize("name", [*WHOLE])
@pytest.mark.parametrize("is_null", [True, False])
def test_any_field_may_be_missing(name, is_null):
    output = {key: value for key, value in WHOLE.items() if key != name}
    chunk = parse_engine_output({**output, name: None} if is_null else output)
    unchanged = [field for field in ("index", "stop_reason", "token_ids") if field != name]
    whole = parse_engine_output(WHOLE)
    assert [getattr(chunk, field) for field in unchanged] == [
        getattr(whole, field) for field in unchanged
    ]


@pytest.mark.parametrize(
    ("output", "chunk"),
    [
        ({"index": 1, "token_ids": [5]}, Chunk(index=1, token_ids=[5])),
        ({"index": None, "token_ids": [5]}, Chunk(token_ids=[5])),
        ({"index": 1, "token_ids": None}, Chunk(index=1)),
        ({"token_ids": [5]}, Chunk(token_ids=[5])),
        ({"index": 1}, Chunk(index=1)),
    ],
)
def test_tokens_alone(output, chunk):
    assert parse_engine_output(output) == chunk
    assert parse_engine_output({**output, "stop_reason": None}) == chunk  # the longer way


@pytest.mark.parametrize(
    ("engines", "openais"),
    [
        *(("eos", "stop"), ("stop", "stop"), ("length", "length"), ("", None)),
        *(("cancelled", "length"), ("abort", "length")),
        *(("timeout", "length"), ("unknown", "stop")),
    ],
)
def test_finish_reasons_are_openais(engines, openais):
    assert parse_engine_output({"token_ids": [], "finish_reason": engines}).finish_reason == openais


WRONG = [
    {"top_logprobs": [[{"token_id": "5"}]]},
    {"top_logprobs": [{"token_id": 5}]},
    {"top_logprobs": "text"},
    {"index": -1},
    {"index": "0"},
    {"index": True},
    {"token_ids": "text"},
    {"token_ids": [-1]},
    {"token_ids": [1 << 32]},
    {"token_ids": [1.5]},
    {"token_ids": [None]},
    {"log_probs": ["-1"]},
    {"log_probs": [None]},
    {"stop_reason": 1 << 70},
    {"stop_reason": ["a"]},
    {"finish_reason": 5},
    {"completion_usage": []},
    {"completion_usage": {"prompt_tokens": -1}},
    {"completion_usage": {"prompt_tokens_details": {"cached_tokens": "4"}}},
]


@pytest.mark.parametrize("fields", WRONG, ids=repr)
def test_fields_of_another_form_are_refused_by_name(fields):
    name = next(iter(fields))
    with pytest.raises(ProtocolError, match=rf"\$\.{name}"):
        parse_engine_output({"token_ids": [5], **fields})


@pytest.mark.parametrize(
    ("output", "error"),
    [
        ({"token_ids": [], "finish_reason": "error: out of memory"}, "error: out of memory"),
        ({"token_ids": [], "finish_reason": {"error": "out of memory"}}, "error: out of memory"),
        ({"token_ids": [], "finish_reason": {"error": None}}, "error: {'error': None}"),
        ({"token_ids": [], "finish_reason": {}}, "error: {}"),
        ({"token_ids": [], "finish_reason": "error"}, "error"),
        ({"message": "no such model", "code": 404}, "no such model"),
        ({"status": 1}, "not an engine output: {'status': 1}"),
        ({"token_ids": [], "finish_reason": "stop"}, None),
        ({"token_ids": [1]}, None),
    ],
)
def test_errors(output, error):
    assert engine_error(output) == error


@pytest.mark.parametrize(
    "output",
    [
        {"token_ids": [], "finish_reason": "error: " + "x" * MAX_ERROR},
        {"token_ids": [], "finish_reason": {"error": "x" * MAX_ERROR}},
        {"message": "x" * (MAX_ERROR + 1)},
    ],
)
def test_a_long_error_is_cut(output):
    assert len(engine_error(output) or "") == MAX_ERROR
