"""What a worker refuses of a request, whoever sent it."""

from contextlib import nullcontext
from typing import Any

import msgspec
import pytest
from backedge.base import limits
from backedge.base.errors import ProtocolError, RequestError
from backedge.parsers.base import ParserRequest
from backedge.postprocess.messages import KEY, PostprocessParams, decode
from backedge.worker import request_stream
from backedge.worker.request_check import check_engine_fields, check_params
from backedge.worker.request_stream import read_params

from tests.support import params

VOCABULARY = 1000
GOOD = {
    "token_ids": [1, 2],
    "stop_conditions": {
        "max_tokens": 10,
        "min_tokens": 0,
        "stop_token_ids": [999, 0],
        "stop_token_ids_hidden": None,
        "stop": ["a"],
        "ignore_eos": True,
    },
    "sampling_options": {"n": 128, "top_k": -1, "seed": -1, "temperature": 0.5, "best_of": None},
    "output_options": {"logprobs": 0, "prompt_logprobs": None},
    "eos_token_ids": [2],
}
NUMBERS = [-2, 1 << 70, "5", 1.5, True, [], {}]


def test_a_request_as_frontends_send_it_passes():
    check_engine_fields(GOOD, VOCABULARY)
    check_engine_fields({}, VOCABULARY)
    check_engine_fields({**GOOD, "eos_token_ids": [1 << 31]}, None)


@pytest.mark.parametrize("value", NUMBERS, ids=repr)
@pytest.mark.parametrize(
    ("group", "field"),
    [
        *(("stop_conditions", field) for field in ("max_tokens", "min_tokens")),
        *(("sampling_options", field) for field in ("n", "top_k")),
        *(("output_options", field) for field in ("logprobs", "prompt_logprobs")),
    ],
)
def test_a_number_of_the_engines_has_its_range(group, field, value):
    with pytest.raises(RequestError) as caught:
        check_engine_fields({**GOOD, group: {field: value}}, VOCABULARY)
    assert caught.value.field == f"{group}.{field}"


LARGE = "[a-z]{1,20000}"


@pytest.mark.parametrize(
    ("field", "value", "small"),
    [
        ("json", {"items": {"pattern": LARGE}}, {"items": {}, "required": 5}),
        ("json", f'{{"pattern": "{LARGE}"}}', '{"pattern": "a+"}'),
        ("regex", LARGE, "a+"),
        ("whitespace_pattern", LARGE, " "),
        ("grammar", f"root ::= {LARGE}", 'root ::= "a"'),
        ("structural_tag", {"format": {"type": "regex", "pattern": LARGE}}, {}),
        ("choice", None, ["a", "b"]),
    ],
)
def test_a_stock_frontends_grammar_is_measured(field, value, small):
    check_engine_fields({"sampling_options": {"guided_decoding": {field: small}}}, None)
    if value is not None:
        request = {"sampling_options": {"guided_decoding": {field: value}}}
        # Backedge's frontends have checked theirs.
        check_engine_fields({**request, "extra_args": {KEY: {}}}, None)
        with pytest.raises(RequestError, match="steps in the grammar of an engine; at most") as it:
            check_engine_fields(request, None)
        assert it.value.field.startswith(f"sampling_options.guided_decoding.{field}")


WRONG_TYPES: list[tuple[str, object]] = [
    ("json", 5),
    ("json", True),
    ("structural_tag", []),
    ("regex", 5),
    ("grammar", {}),
    ("whitespace_pattern", 5),
    ("choice", "a"),
]


@pytest.mark.parametrize(("field", "value"), WRONG_TYPES)
def test_a_stock_frontends_grammar_of_a_wrong_type_is_named(field, value):
    request = {"sampling_options": {"guided_decoding": {field: value}}}
    with pytest.raises(RequestError, match="must be") as it:
        check_engine_fields(request, None)
    assert it.value.field == f"sampling_options.guided_decoding.{field}"
    check_engine_fields({"sampling_options": {"guided_decoding": {field: None}}}, None)


@pytest.mark.parametrize(
    ("n", "best_of", "refused"), [(1, 3, True), (None, 2, True), (2, 2, False), (None, 1, False)]
)
def test_best_of_is_refused_unless_it_means_nothing(n, best_of, refused):
    request = {"sampling_options": {"n": n, "best_of": best_of}}
    with pytest.raises(RequestError, match="best_of") if refused else nullcontext():
        check_engine_fields(request, VOCABULARY)


WRONG_TOKENS = [[VOCABULARY], [-1], [60_000_000], [1 << 70], ["1"], [1.0], [True], [None], "x", 5]


@pytest.mark.parametrize("value", WRONG_TOKENS, ids=repr)
@pytest.mark.parametrize(
    "name", ["stop_token_ids", "stop_token_ids_hidden", "stop_token_ids_visible", "eos_token_ids"]
)
def test_token_ids_are_the_engines(name, value):
    where: dict[str, Any] = {"stop_conditions": {"min_tokens": 1}}
    (where if name == "eos_token_ids" else where["stop_conditions"])[name] = value
    with pytest.raises(RequestError) as caught:
        check_engine_fields(where, VOCABULARY)
    assert name in caught.value.field


@pytest.mark.parametrize("name", ["stop_token_ids_hidden", "eos_token_ids"])
def test_the_models_own_may_be_beyond_the_vocabulary_if_they_are_not_suppressed(name):
    where = {"stop_conditions": {"min_tokens": 0, name: [VOCABULARY]}, name: [VOCABULARY]}
    check_engine_fields(where, VOCABULARY)


@pytest.mark.parametrize("value", [5, "text", [1]])
@pytest.mark.parametrize("name", ["stop_conditions", "sampling_options", "output_options"])
def test_groups_are_objects(name, value):
    with pytest.raises(RequestError, match=f"`{name}` must be an object"):
        check_engine_fields({name: value}, VOCABULARY)


def test_there_are_not_too_many_stop_tokens():
    token_ids = [1] * (limits.MAX_STOP_TOKEN_IDS + 1)
    with pytest.raises(RequestError, match="at most"):
        check_engine_fields({"eos_token_ids": token_ids}, VOCABULARY)


BAD_PARAMS: dict[str, list[Any]] = {
    "n": [0, -1, 129, 1 << 62],
    "prompt_length": [-1, 4],
    "min_tokens": [-1, 1 << 40],
    "created": [-1, 1 << 80],
    "logprobs": [-1, limits.MAX_WORKER_LOGPROBS + 1],
    "stop": [
        [""],
        ["a", ""],
        ["x"] * (limits.MAX_STOPS + 1),
        ["x" * (limits.MAX_STOP_CHARACTERS + 1)],
    ],
    "response_id": ["x" * (limits.MAX_ID + 1)],
    "model": ["x" * (limits.MAX_ID + 1)],
    "parser": [
        ParserRequest(history_tool_calls=-1),
        ParserRequest(history_tool_calls=limits.MAX_HISTORY_CALLS + 1),
        ParserRequest(tools=[{}] * (limits.MAX_TOOLS + 1)),
    ],
}


@pytest.mark.parametrize(
    ("name", "value"), [(name, value) for name, values in BAD_PARAMS.items() for value in values]
)
def test_parameters_beyond_their_bounds_are_refused(name, value):
    with pytest.raises(RequestError) as caught:
        check_params(params(**{name: value}), 3)
    assert caught.value.field.startswith(f"{KEY}.{name}")
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize("stop", [[], ["x"] * limits.MAX_STOPS])
def test_parameters_within_them_pass(stop):
    check_params(params(n=128, prompt_length=3, logprobs=20, stop=stop), 3)


def test_parameters_of_an_unlikely_size_are_not_even_decoded(monkeypatch):
    monkeypatch.setattr(request_stream, "MAX_PARAMS_CHARACTERS", 10)
    with pytest.raises(RequestError, match="has 11 characters; at most 10 are"):
        read_params({"extra_args": {KEY: "x" * 11}})


def test_parameters_that_are_nested_too_deeply_are_none():
    deep = b'{"a":' * 100_000 + b"1" + b"}" * 100_000
    whole = (
        msgspec.json.encode(params())[:-1] + b',"parser":{"chat_template_kwargs":' + deep + b"}}"
    )
    with pytest.raises(ProtocolError, match="nested more than 512 levels"):
        decode(PostprocessParams, whole.decode())
