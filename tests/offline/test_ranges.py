"""A row is judged alike by all back ends, and as a server judges the request.

Rows with each field at the ends of its range, and beyond, are read and prepared without weights.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from backedge.base.errors import RequestError
from backedge.base.limits import MAX_STOP_CHARACTERS, MAX_STOP_TOKEN_IDS, MAX_STOPS
from backedge.base.ranges import RANGES
from backedge.frontend.request.chat_request import decode_chat_request
from backedge.frontend.request.validation import check_request
from backedge.offline import GenerationOptions, ModelLoadConfig
from backedge.offline.batch_job import OPTION_FIELDS, RowReader
from backedge.offline.contracts import BackendName
from backedge.offline.inference_backend import backend_class
from backedge.offline.preparation import Preparation, read_request
from backedge.offline.rows import RowFailure

from tests.support import TINY_MODEL

VOCABULARY_SIZE = 560
BACKENDS: tuple[BackendName, ...] = ("replay", "hf", "vllm", "sglang")
MESSAGES = [{"role": "user", "content": "Hi"}]
WHOLE = ("n", "seed", "top_k", "max_tokens", "max_completion_tokens", "min_tokens", "top_logprobs")


def bounds(field: str) -> list[Any]:
    least, most, above = RANGES[field]
    step = 1 if field in WHOLE else 0.001
    inside = [least + step if above else least, most]
    beyond = [least if above else least - step, most + step]
    return [*inside, *beyond, float("nan"), "1", True, [1], {}]


def rows() -> list[tuple[str, dict[str, Any]]]:
    fields = [field for field in RANGES if field in OPTION_FIELDS]
    made = [(f"{name} {value}", {name: value}) for name in fields for value in bounds(name)]
    made += [
        (f"top_logprobs {value}", {"logprobs": True, "top_logprobs": value})
        for value in bounds("top_logprobs")
    ]
    made += [("1.5 " + name, {name: 1.5}) for name in WHOLE if name in OPTION_FIELDS]
    lists = {
        "stop_token_ids": [
            *(
                [0],
                [VOCABULARY_SIZE - 1],
                [VOCABULARY_SIZE],
                [-1],
                [2**31],
                [1] * MAX_STOP_TOKEN_IDS,
            ),
            *([1] * (MAX_STOP_TOKEN_IDS + 1), ["1"], "1", 1),
        ],
        "stop": [
            *("a", ["a"] * MAX_STOPS, ["a"] * (MAX_STOPS + 1), [""], "", [1.5], 1.5),
            *("a" * MAX_STOP_CHARACTERS, "a" * (MAX_STOP_CHARACTERS + 1)),
        ],
    }
    made += [
        (f"{name} number {number}", {name: value})
        for name, values in lists.items()
        for number, value in enumerate(values)
    ]
    return made


ROWS = rows()


@pytest.fixture(scope="module")
def preparations() -> dict[str, Preparation]:
    configs = {name: ModelLoadConfig(TINY_MODEL, backend=name) for name in BACKENDS}
    return {name: Preparation(backend_class(name)(config)) for name, config in configs.items()}


def judge_row(prepare: Preparation, fields: dict[str, Any]) -> bool:
    reader = RowReader(GenerationOptions(), Path(), ["m"])
    try:
        request = reader.read({"custom_id": "a", "body": {"messages": MESSAGES, **fields}}, 1)
        prepare.build_row("text", 0, "a", read_request(request), GenerationOptions(), [])
    except RowFailure:
        return False
    return True


def judge_request(fields: dict[str, Any]) -> bool:
    try:
        request = decode_chat_request({"model": "m", "messages": MESSAGES, **fields})
        check_request(request, VOCABULARY_SIZE)
    except RequestError:
        return False
    return True


@pytest.mark.parametrize("fields", [fields for _, fields in ROWS], ids=[name for name, _ in ROWS])
def test_all_back_ends_and_the_server_judge_alike(
    preparations: dict[str, Preparation], fields: dict[str, Any]
) -> None:
    judged = {name: judge_row(prepare, fields) for name, prepare in preparations.items()}
    assert judged == dict.fromkeys(BACKENDS, judge_request(fields))


@pytest.mark.parametrize(
    ("bias", "good"), [({"559": -100}, True), ({"560": 1}, False), ({"1": 101}, False)]
)
def test_biases_are_of_the_model_s_tokens(
    preparations: dict[str, Preparation], bias: dict[str, float], *, good: bool
) -> None:
    """Dynamo's workers have none, so a server refuses each."""
    judged = {name: judge_row(each, {"logit_bias": bias}) for name, each in preparations.items()}
    assert judged == dict.fromkeys(BACKENDS, good)
