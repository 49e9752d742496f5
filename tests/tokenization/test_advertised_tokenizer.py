"""The tokenizer on the model card: what workers write is what frontends read."""

from __future__ import annotations

import json
from typing import Any

import pytest
from backedge.base.errors import SetupError
from backedge.tokenization import read_tokenizer_config, set_tokenizer_config
from backedge.tokenization.tokenizer_selection import BACKENDS, KEY, TokenizerSelection
from dynamo.llm import ModelRuntimeConfig

CLASS = ("my.module", "My")


@pytest.mark.parametrize("backend", BACKENDS)
def test_what_is_set_is_read(backend: Any) -> None:
    names = CLASS if backend == "python" else ()
    config = ModelRuntimeConfig()
    set_tokenizer_config(config, backend, *names)
    # Dynamo sends the values decoded.
    runtime_data = {key: json.loads(value) for key, value in config.runtime_data.items()}
    found = read_tokenizer_config({"runtime_data": runtime_data})
    assert found == TokenizerSelection(backend, *names)


@pytest.mark.parametrize("runtime_config", [{}, {"runtime_data": None}, {"runtime_data": {}}])
def test_a_card_without_one(runtime_config: dict[str, Any]) -> None:
    assert read_tokenizer_config(runtime_config) == TokenizerSelection()


def test_a_newer_worker_may_add_fields() -> None:
    entry = {"backend": "vllm", "of_tomorrow": 1}
    assert read_tokenizer_config({"runtime_data": {KEY: entry}}) == TokenizerSelection("vllm")


BAD = [
    ({"backend": "of tomorrow"}, "'of tomorrow' is unknown"),
    ({"backend": "python"}, "python needs module"),
    ({"backend": "python", "module": "m"}, "python needs class_name"),
    ({"backend": "python", "class_name": "C"}, "python needs module"),
    ({"backend": "vllm", "module": "m"}, "which is not set"),
    ("vllm", "is not a tokenizer"),
    ({"backend": 3}, "is not a tokenizer"),
    ({}, "is not a tokenizer"),
]


@pytest.mark.parametrize(("entry", "reason"), BAD)
def test_what_cannot_be_followed_is_refused(entry: Any, reason: str) -> None:
    with pytest.raises(SetupError, match=reason):
        read_tokenizer_config({"runtime_data": {KEY: entry}})


@pytest.mark.parametrize(
    ("entry", "reason"), [case for case in BAD if "not a tokenizer" not in case[1]]
)
def test_and_cannot_be_set(entry: Any, reason: str) -> None:
    names = {"module": "python_module", "class_name": "python_class"}
    given = {names.get(name, name): value for name, value in entry.items()}
    for name, argument in names.items():
        reason = reason.replace(f"needs {name}", f"needs {argument}")
    with pytest.raises(SetupError, match=reason):
        set_tokenizer_config(ModelRuntimeConfig(), **given)
