"""What SGLang alone is asked for; `test_engines` has what vLLM does as well."""

from __future__ import annotations

import pytest
from backedge.offline.contracts import CapabilityError

from tests.engines.offline.scripted_engines import TOKENS, start
from tests.offline.batches import letters


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
        engine.generate_text_batch([letters(0, stop_token_ids=[7], seed=3, n=2)])
    first, second = scripted.asked
    assert "stop" not in first
    assert set(first["stop_token_ids"]) == {551, 553, 7}
    assert (first["top_k"], first["temperature"], first["stream_interval"]) == (-1, 0, 1)
    assert (first["sampling_seed"], second["sampling_seed"]) == (3, 4)


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
