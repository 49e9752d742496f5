"""What vLLM and SGLang are asked for alike, and what becomes of their outputs.

Stand-ins take the engines' place; the real ones run in tests/e2e.
"""

from __future__ import annotations

import importlib
import itertools
import json
from pathlib import Path
from typing import Any

import pytest
from backedge.engines.vllm.offline import find_rank
from backedge.offline import EmbeddingRequest, GenerationEngine, ModelLoadConfig
from backedge.offline.contracts import (
    CapabilityError,
    EngineDiedError,
    OptionValueError,
    UnknownOptionError,
)
from vllm.platforms import current_platform
from vllm.v1.engine.exceptions import EngineDeadError

from tests.engines.offline.scripted_engines import NAMES, TOKENS, build_engine, start
from tests.offline.batches import LETTERS, ask, check_batches_in_succession, letters
from tests.support import TINY_MODEL, encode

TITLES = {"vllm": "vLLM", "sglang": "SGLang"}
engines = pytest.mark.parametrize("name", NAMES)


@engines
def test_a_stop_string_ends_the_engines_work(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    engine, scripted = start(monkeypatch, name)
    with engine:
        [result] = engine.generate_text_batch([letters(0)])
    assert (result.text, result.stop_reason) == (LETTERS["expect"]["content"], "delta, ep")
    assert len(scripted.aborted) == 1
    assert len(result.token_ids) < len(TOKENS)


@engines
def test_without_stop_strings_the_tokens_come_at_once(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    engine, scripted = start(monkeypatch, name)
    with engine:
        [result] = engine.generate_text_batch([letters(0, stop=[], logprobs=1)])
    assert result.token_ids == TOKENS
    assert [entry.logprob for entry in result.logprobs or []] == [-0.5] * len(TOKENS)
    assert scripted.aborted == []


@engines
def test_choices_end_apart(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    engine, _ = start(monkeypatch, name)
    with engine:
        [result] = engine.generate_text_batch([letters(0, n=3, temperature=1)])
    assert [choice.text for choice in result.choices] == [LETTERS["expect"]["content"]] * 3


@engines
def test_no_request_s_id_begins_with_that_of_another(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    engine, scripted = start(monkeypatch, name)
    with engine:
        for _ in range(2):
            engine.generate_text_batch([letters(0, n=11, temperature=1)])
    ids = sorted(scripted.ids)
    assert len(ids) == 22
    assert not any(later.startswith(earlier) for earlier, later in itertools.pairwise(ids))


@engines
def test_batches_in_succession(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    engine, scripted = start(monkeypatch, name)
    with engine:
        check_batches_in_succession(engine)
        assert scripted.running == {}


def test_a_dead_engine_ends_its_batch_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    engine, scripted = start(monkeypatch, "vllm")

    def die(*_: object) -> None:
        raise EngineDeadError

    with engine:
        with monkeypatch.context() as patch:
            patch.setattr(scripted, "step", die)
            patch.setattr(scripted, "abort_request", die)
            with pytest.raises(EngineDiedError, match="the engine died: vLLM's own messages"):
                engine.generate_text_batch([letters(0)])
        scripted.running.clear()
        engine.generate_text_batch([letters(0)])
    assert scripted.loads == 2


@engines
def test_rows_are_embedded(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    engine, scripted = start(monkeypatch, name)
    rows = [EmbeddingRequest(inputs=["Hi", [1, 2, 3]]), EmbeddingRequest(inputs=[[4]])]
    with engine:
        assert [result.embeddings for result in engine.embed_batch(rows)] == [
            [[float(len(encode("Hi")))], [3.0]],
            [[1.0]],
        ]
        scripted.dies = True
        with pytest.raises(EngineDiedError, match="the engine died"):
            engine.embed_batch(rows)


# how the engine does not do the second choice of the second row, what its error says
REFUSALS = {
    "vllm": [
        ({"refused": ["1-1"]}, "vLLM rejects the row: VLLMValidationError: too long for me"),
        ({"gives_up": ["1-1"]}, "vLLM aborted the row"),
    ],
    "sglang": [
        ({"refused": ["1-1"]}, "SGLang rejects the row: ValueError: too long for me"),
        ({"gives_up": ["1-1"]}, "SGLang rejects the row: ValueError: out of blocks"),
    ],
}


@pytest.mark.parametrize("stop", [["zz"], []], ids=["in steps", "at once"])
@pytest.mark.parametrize(
    ("name", "script", "part"), [(name, *case) for name in NAMES for case in REFUSALS[name]]
)
def test_a_row_that_the_engine_does_not_do_fails_alone(
    monkeypatch: pytest.MonkeyPatch, name: str, script: Any, part: str, stop: list[str]
) -> None:
    engine, scripted = start(monkeypatch, name, **script)
    with engine:
        rows = [letters(number, n=2, temperature=1, stop=stop) for number in range(3)]
        results = engine.generate_text_batch(rows)
    assert [result.error is None for result in results] == [True, False, True]
    assert part in str(results[1].error)
    if stop:
        assert any(request_id.endswith("1-0") for request_id in scripted.aborted)


@engines
def test_no_more_rows_are_held_than_the_bound(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    module = importlib.import_module(f"backedge.engines.{name}.offline")
    monkeypatch.setattr(module, "MAX_HELD_ROWS", 4)
    engine, scripted = start(monkeypatch, name)
    with engine:
        results = engine.generate_text_batch([letters(number) for number in range(11)])
    assert len(results) == 11
    assert scripted.held == 4


@engines
def test_a_batch_that_is_given_up_ends_the_engines_work(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    engine, scripted = start(monkeypatch, name)
    with engine:
        results = engine.iterate_text_batch([letters(0, stop=["al"]), letters(1, stop=["zz"])])
        next(results)
        results.close()
        assert scripted.running == {}
    assert len(scripted.aborted) == 2


@engines
def test_a_row_that_fails_is_there_before_the_others_end(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    engine, scripted = start(monkeypatch, name)
    rows = [letters(0), letters(1), ask("word " * 5000), letters(2)]
    with engine:
        results = engine.iterate_text_batch(iter(rows))
        index, failed = next(results)
        assert (index, failed.error is None) == (2, False)
        assert len(scripted.asked) < len(rows) - 1, "the last row is not read yet"
        assert {index for index, _ in results} == {0, 1, 3}


SCHEMA = {"type": "object"}
TAG = {"type": "structural_tag", "format": {"type": "any_text"}}
CHOICE_TAG = {
    "type": "structural_tag",
    "format": {"type": "or", "elements": [{"type": "const_string", "value": "a"}]},
}
# fields, the parameter and its value: of vLLM, of SGLang
GRAMMARS: list[tuple[dict[str, Any], tuple[str, Any], tuple[str, Any]]] = [
    ({"guided_json": SCHEMA}, ("json", SCHEMA), ("json_schema", SCHEMA)),
    ({"guided_regex": "a+"}, ("regex", "a+"), ("regex", "a+")),
    ({"guided_grammar": "root ::= x"}, ("grammar", "root ::= x"), ("ebnf", "root ::= x")),
    ({"guided_choice": ["a"]}, ("choice", ["a"]), ("structural_tag", CHOICE_TAG)),
    ({"response_format": TAG}, ("structural_tag", TAG), ("structural_tag", TAG)),
]
KINDS = {
    "vllm": ("json", "regex", "grammar", "choice", "structural_tag"),
    "sglang": ("json_schema", "regex", "ebnf", "structural_tag"),
}
AS_JSON = {"json", "json_schema", "structural_tag"}


@engines
@pytest.mark.parametrize("fields", [fields for fields, *_ in GRAMMARS], ids=str)
def test_what_holds_an_answer(
    monkeypatch: pytest.MonkeyPatch, name: str, fields: dict[str, Any]
) -> None:
    engine, scripted = start(monkeypatch, name)
    with engine:
        engine.generate_text_batch([ask("Hi"), ask("Hi", **fields)])
    free, held = scripted.asked
    if name == "vllm":
        assert free.structured_outputs is None
        given = {kind: getattr(held.structured_outputs, kind) for kind in KINDS[name]}
    else:
        assert free.keys().isdisjoint(KINDS[name])
        given = {kind: held.get(kind) for kind in KINDS[name]}
    [(kind, value)] = [(kind, value) for kind, value in given.items() if value is not None]
    [expected] = [case[1 + NAMES.index(name)] for case in GRAMMARS if case[0] == fields]
    assert (kind, json.loads(value) if kind in AS_JSON else value) == expected


@engines
def test_a_row_s_adapter(monkeypatch: pytest.MonkeyPatch, name: str, tmp_path: Path) -> None:
    _, scripted = start(monkeypatch, name)
    (tmp_path / "adapter_config.json").write_text('{"r": 12}')
    fields: Any = {"backend": name, "lora": {"own": tmp_path}}
    config = ModelLoadConfig(TINY_MODEL, **fields)
    with GenerationEngine(config) as engine:
        rows = [ask("Hi", lora=lora) for lora in (None, "own", "other")]
        results = engine.generate_text_batch(rows)
    # vLLM's kernels for a CPU would take an adapter for the first row as well.
    on_cpu = name == "vllm"
    assert scripted.lora == [str(tmp_path)] if on_cpu else [None, "own"]
    assert [result.error is None for result in results] == [not on_cpu, True, False]
    assert results[2].error is not None
    assert results[2].error.message == "lora has no adapter 'other'; known: 'own'."
    if name == "vllm":
        assert results[0].error is not None
        assert "run such rows without lora" in results[0].error.message
        assert find_rank(config) == 16
        monkeypatch.setattr(type(current_platform), "is_cpu", lambda _: False)
        with GenerationEngine(config) as engine:
            assert engine.generate_text_batch(rows[:1])[0].error is None


def test_an_adapter_is_checked_before_anything_loads(tmp_path: Path) -> None:
    for backend, error, part in (
        ("vllm", OptionValueError, "a folder with an adapter_config.json"),
        ("replay", CapabilityError, "lora needs the capability 'lora'"),
    ):
        given: Any = {"backend": backend, "lora": {"own": tmp_path}}
        with pytest.raises(error, match=part):
            GenerationEngine(ModelLoadConfig(TINY_MODEL, **given))


# engine, argument, the rest of the message
BAD_ARGUMENTS = [
    ("vllm", {"tensor_paralel_size": 2}, "; did you mean 'tensor_parallel_size'"),
    ("vllm", {"max_model_len": 9}, ""),
    ("vllm", {"batch_size": 9}, ""),
    ("vllm", {"reasoning_parser": "qwen3"}, ""),
    ("sglang", {"attention_backnd": "x"}, "; did you mean 'attention_backend'"),
    ("sglang", {"skip_tokenizer_init": False}, ""),
]


@pytest.mark.parametrize(("name", "arguments", "rest"), BAD_ARGUMENTS)
def test_arguments_that_the_installed_version_does_not_take(
    name: str, arguments: dict[str, Any], rest: str
) -> None:
    [given] = arguments
    with pytest.raises(UnknownOptionError, match=f"{TITLES[name]} has no option '{given}'{rest}"):
        build_engine(name, **arguments)
