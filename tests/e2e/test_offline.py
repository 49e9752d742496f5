"""Generation without a server: the same text from every back end, with the example model."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from backedge.offline.errors import CapabilityError

from examples.make_vision_model import make
from tests.e2e.offline_batch import ALL, Results, build_engine, generate
from tests.offline.batches import message
from tests.offline.stop_matrix import CASES
from tests.offline.vision_rows import rows
from tools.stack import ROOT

ENGINES = ("hf", "vllm", "sglang")
ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "SGLANG_USE_CPU_ENGINE": "1",
    "HF_HUB_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
}


@pytest.fixture(scope="module")
def recorded() -> Results:
    return generate("replay")


def run(folder: Path, *arguments: str) -> Results:
    """Generate in a process of its own. arguments: those of `offline_batch`, but the output."""
    log, output = folder / "log", folder / "results"
    backend, *model = arguments
    with log.open("wb") as stream:
        status = subprocess.run(
            [sys.executable, "-m", "tests.e2e.offline_batch", backend, output, *model],
            cwd=ROOT,
            env={**os.environ, **ENVIRONMENT},
            stdout=stream,
            stderr=stream,
            timeout=400,
            check=False,
        ).returncode
    assert status == 0, log.read_text(errors="replace")[-4000:]
    return msgspec.json.decode(output.read_bytes(), type=Results)


@pytest.fixture(scope="module", params=ENGINES)
def generated(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Results:
    return run(tmp_path_factory.mktemp(request.param), request.param)


def test_there_are_enough_stop_cases() -> None:
    assert len(CASES) >= 80
    assert len({case.name for case in CASES}) == len(CASES)


def test_every_transcript_is_parsed_as_behind_a_server(generated: Results) -> None:
    assert [message(result) for result in generated.transcripts] == [
        transcript["expect"] for transcript in ALL
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


def test_images_give_the_same_text_with_transformers_and_vllm(tmp_path: Path) -> None:
    make(tmp_path / "model")
    found = []
    for backend in ("hf", "vllm"):
        folder = tmp_path / backend
        folder.mkdir()
        found.append(run(folder, backend, str(tmp_path / "model")).transcripts)
    for first, second in zip(*found, strict=True):
        assert first.error is None
        assert (first.prompt_tokens, first.choices) == (second.prompt_tokens, second.choices)
    assert max(result.prompt_tokens for result in found[0]) < 70


def test_sglang_refuses_images_before_it_loads() -> None:
    with build_engine("sglang") as engine, pytest.raises(CapabilityError, match="'vlm'"):
        engine.generate_vlm_batch(rows())
