"""What SGLang alone is asked for; `test_engines` has what vLLM does as well."""

from __future__ import annotations

from typing import Any

import pytest
from backedge.offline.contracts import CapabilityError, OptionValueError

from tests.engines.offline.scripted_engines import TOKENS, start
from tests.offline.batches import letters

TWO = {"n": 2, "temperature": 1}


def test_tokens_that_come_at_once_are_one_output(monkeypatch: pytest.MonkeyPatch) -> None:
    engine, scripted = start(monkeypatch, "sglang")
    with engine:
        engine.generate_text_batch([letters(0, stop=[], logprobs=1)])
    [asked] = scripted.asked
    assert asked["stream_interval"] > len(TOKENS)
    assert (asked["return_logprob"], asked["top_logprobs_num"]) == (True, 1)


def test_sglang_gets_tokens_and_no_strings(monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = {"enable_deterministic_inference": True}
    engine, scripted = start(monkeypatch, "sglang", arguments)
    with engine:
        engine.generate_text_batch([letters(0, stop_token_ids=[7], seed=3, n=2, temperature=1)])
    first, second = scripted.asked
    assert "stop" not in first
    assert set(first["stop_token_ids"]) == {551, 553, 7}
    assert (first["temperature"], first["stream_interval"]) == (1, 1)
    assert (first["sampling_seed"], second["sampling_seed"]) == (3, 4)


def test_a_row_s_seed_acts_the_same_in_any_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    """SGLang samples in two ways: in one as soon as any row of its batch has a limit."""
    engine, scripted = start(monkeypatch, "sglang", {"enable_deterministic_inference": True})
    options: list[dict[str, Any]] = [TWO, {"top_k": 5, "seed": 2**63 - 1, **TWO}, {"seed": 3}]
    with engine:
        engine.generate_text_batch([letters(row, **some) for row, some in enumerate(options)])
    asked = scripted.asked
    assert [each["top_k"] > 0 for each in asked] == [True] * 5
    assert asked[2]["top_k"] == 5
    unseeded, seeds = asked[:2], [each["sampling_seed"] for each in asked[2:]]
    assert seeds == [2**63 - 1, 0, 3]
    assert len({each["sampling_seed"] for each in unseeded}) == 2


def test_a_row_that_would_end_sglang_fails_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    engine, _ = start(monkeypatch, "sglang", {"enable_deterministic_inference": True})
    with engine:
        bad, good = engine.generate_text_batch([letters(0, min_p=0.1), letters(1)])
    assert "min_p=0.1 excludes enable_deterministic_inference" in str(bad.error)
    assert good.error is None


def test_sglang_gets_the_names_that_it_knows(monkeypatch: pytest.MonkeyPatch) -> None:
    engine, scripted = start(monkeypatch, "sglang")
    options = {"presence_penalty": 1, "frequency_penalty": 0.5, "min_p": 0.1, "min_tokens": 2}
    with engine:
        engine.generate_text_batch([letters(0, **options, logit_bias={7: 1}, ignore_eos=True)])
    [asked] = scripted.asked
    options["min_new_tokens"] = options.pop("min_tokens")
    expected = {**options, "logit_bias": {"7": 1.0}, "ignore_eos": True, "stream_interval": 1}
    assert asked | expected == asked


def test_a_seed_that_sglang_would_ignore_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    engine, _ = start(monkeypatch, "sglang")
    with pytest.raises(CapabilityError, match=r"seed=3.*enable_deterministic_inference=true"):
        engine.generate_text_batch([letters(0, seed=3)])


def test_the_mode_for_seeds_is_refused_for_a_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """SGLang would take a GPU's attention. It judges a named one itself."""
    arguments = {"enable_deterministic_inference": True, "device": "cpu"}
    with pytest.raises(OptionValueError, match="enable_deterministic_inference` must be false for"):
        start(monkeypatch, "sglang", arguments)
    start(monkeypatch, "sglang", {**arguments, "attention_backend": "torch_native"})
