"""Generation without a server: the same text from every back end, with the example model."""

from __future__ import annotations

import contextlib
import functools
import os
import signal
from collections.abc import Callable
from typing import TypeAlias

import msgspec
import pytest
from backedge.offline.contracts import CapabilityError

from examples.make_vision_model import make
from tests.e2e.forked import Forked
from tests.e2e.offline_batch import ALL, ENVIRONMENT, OPTIONS, Results, build_engine, generate
from tests.offline.batches import message
from tests.offline.guided_rows import CASES as GUIDED
from tests.offline.stop_matrix import CASES
from tests.offline.vision_rows import rows
from tests.support import as_whole

Run: TypeAlias = Callable[[str], Results]
ENGINES = ("hf", "vllm", "sglang")


@pytest.fixture(scope="module")
def recorded() -> Results:
    return generate("replay")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Return what generates all batches with a back end, once each, in a process of its own."""
    model = tmp_path_factory.mktemp("vision") / "model"
    make(model)

    @functools.cache
    def run(backend: str) -> Results:
        folder = tmp_path_factory.mktemp(backend)
        log, output = folder / "log", folder / "results"
        command = ("-m", "tests.e2e.offline_batch", backend, str(output), str(model))
        process = Forked(command, log, {**os.environ, **ENVIRONMENT})
        try:
            status = process.wait(400)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        assert status == 0, log.read_text(errors="replace")[-4000:]
        return msgspec.json.decode(output.read_bytes(), type=Results)

    return run


@pytest.fixture(scope="module", params=ENGINES)
def generated(request: pytest.FixtureRequest, run: Run) -> Results:
    return run(request.param)


def test_there_are_enough_stop_cases() -> None:
    assert len(CASES) >= 80
    assert len({case.name for case in CASES}) == len(CASES)


def test_every_transcript_is_parsed_as_behind_a_server(generated: Results) -> None:
    """Also those with a forced call or a schema; `test_transcripts` has the server."""
    assert [message(result) for result in generated.transcripts] == [
        as_whole(transcript["expect"]) for transcript in ALL
    ]


def test_texts_of_transcripts_are_those_of_the_recordings(
    generated: Results, recorded: Results
) -> None:
    assert [
        (result.text, result.raw_text, result.token_ids) for result in generated.transcripts
    ] == [(result.text, result.raw_text, result.token_ids) for result in recorded.transcripts]


def test_every_stop_case_gives_the_same_result(generated: Results, recorded: Results) -> None:
    for result, expected in zip(generated.stops, recorded.stops, strict=True):
        assert result.choices == expected.choices, result.id
        assert result.error is None
        assert result.prompt_tokens == expected.prompt_tokens


def test_answers_are_what_holds_them(generated: Results) -> None:
    for case, result in zip(GUIDED, generated.guided, strict=True):
        assert (result.error is None) is (case.is_valid is not None), (case.name, result.error)
        if case.is_valid is not None:
            assert case.is_valid(result.text), (case.name, result.text)
            assert result.finish_reason == "stop"


def test_answers_that_are_held_are_the_same_with_all_engines(run: Run) -> None:
    texts = [[result.text for result in run(backend).guided] for backend in ENGINES]
    assert texts[0] == texts[1] == texts[2]


def test_options_of_rows_give_the_same_text_with_all_engines(run: Run) -> None:
    found = [
        [(result.token_ids, result.finish_reason, result.error) for result in run(each).options]
        for each in ENGINES
    ]
    assert found[0] == found[1] == found[2]
    assert len({str(each) for each in found[0]}) > len(OPTIONS) // 2


def test_a_plugin_changes_logits_in_vllm_where_it_is_to(run: Run) -> None:
    assert [result.text for result in run("vllm").commas] == [",,,,"]


def test_images_give_the_same_text_with_transformers_and_vllm(run: Run) -> None:
    found = run("hf").images
    for first, second in zip(found, run("vllm").images, strict=True):
        assert first.error is None
        assert (first.prompt_tokens, first.choices) == (second.prompt_tokens, second.choices)
    assert 0 < max(result.prompt_tokens for result in found) < 70


def test_sglang_refuses_images_before_it_loads() -> None:
    with build_engine("sglang") as engine, pytest.raises(CapabilityError, match="'vlm'"):
        engine.generate_vlm_batch(rows())
