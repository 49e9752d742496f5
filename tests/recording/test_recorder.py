"""Which requests are recorded, and what is taken down of them."""

from __future__ import annotations

import itertools
import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from backedge.base.limits import SAMPLE_AHEAD, TAIL_TOKENS
from backedge.parsers.base import ParserNames
from backedge.postprocess import ChoiceDelta, Chunk
from backedge.postprocess.logprobs import LEAST
from backedge.postprocess.messages import Delta, EngineLogprob
from backedge.recording import recorder as module
from backedge.recording.flags import RecordSettings
from backedge.recording.recorder import (
    METADATA_KEY,
    Recorder,
    RequestRecorder,
    Sample,
    hash_ids,
)
from backedge.recording.recording import RecordedModel, Recording
from backedge.recording.recording_file import read_recordings
from backedge.recording.redaction import Redactor
from backedge.recording.writer import RecordingWriter
from hypothesis import given
from hypothesis import strategies as st

from tests.support import encode, params, tiny_detokenizers

MODEL = RecordedModel(path="m", engine="replay", parsers=ParserNames("hermes"), kind="linear")
TEXT = encode("Hello you")


class Recorded:
    """A recorder, and what it has written."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        self.folder = folder
        chosen = RecordSettings(folder=str(folder), **settings)
        self.writer = RecordingWriter(chosen, "worker")
        self.recorder = Recorder(
            chosen, self.writer, "worker", MODEL, lambda: Redactor(tiny_detokenizers())
        )

    def start(self, response_id: str = "r", context: Any = None, **fields: Any) -> RequestRecorder:
        found = self.recorder.start(params(response_id=response_id, **fields), [1, 2, 3], context)
        assert found is not None
        found.begin(10.0)
        return found

    def read(self) -> list[Recording]:
        self.writer.close()
        files = sorted(self.folder.glob("*.jsonl"))
        return [recording for file in files for recording in read_recordings(file)]


def header(value: str) -> SimpleNamespace:
    return SimpleNamespace(metadata={METADATA_KEY: value})


def test_all_of_a_request(tmp_path: Path) -> None:
    recorded = Recorded(tmp_path, content=True)
    request = recorded.start(prompt_length=2)
    chunk = Chunk(token_ids=TEXT, finish_reason="stop", logprobs=[-0.5] * len(TEXT))
    delta = ChoiceDelta(0, Delta(content="Hello you"), "stop")
    request.add(chunk, 10.5)
    request.sent([delta], 10.75)
    request.end("finished")
    request.end("failed", "twice")
    (found,) = recorded.read()
    assert found.chunks[1].chunk == chunk
    assert [item.at_ms for item in found.chunks] == [0.0, 500.0]
    assert (found.chunks[0].chunk.token_ids, found.resumed) == ([3], 1)
    assert (found.sent[0].at_ms, found.sent[0].deltas) == (750.0, [delta])
    assert (found.prompt.token_ids, found.prompt.tail) == ([1, 2], [1, 2])
    assert (found.outcome, found.error, found.redacted, found.dropped) == (
        "finished",
        None,
        False,
        0,
    )
    assert found.model == MODEL


def test_without_content_there_are_no_words(tmp_path: Path) -> None:
    recorded = Recorded(tmp_path)
    request = recorded.start(prompt_length=3)
    request.add(Chunk(token_ids=TEXT[:1]), 11.0)
    request.add(Chunk(token_ids=TEXT[1:], finish_reason="stop"), 12.0)
    request.sent([ChoiceDelta(0, Delta("assistant", "Hello you"), "stop")], 12.0)
    request.end("failed", "ValueError: Hello you")
    (found,) = recorded.read()
    assert found.redacted
    assert found.prompt.token_ids is None
    assert not {*TEXT} & {
        token_id for item in found.chunks for token_id in item.chunk.token_ids
    } - {*encode(" ")}
    assert found.sent[0].deltas == [ChoiceDelta(0, Delta("assistant", "." * 9), "stop")]
    assert (found.outcome, found.error) == ("failed", "ValueError")


def test_prompts_may_be_left_out(tmp_path: Path) -> None:
    recorded = Recorded(tmp_path, content=True, prompts=False)
    recorded.start(prompt_length=3).end("cancelled")
    recorded.start(prompt_length=3).end("cancelled")
    one, other = recorded.read()
    assert one.prompt.token_ids is None
    assert one.prompt.sha256 == other.prompt.sha256
    assert len(one.prompt.sha256) == 64


def test_a_sample_is_a_share_that_no_client_chooses(tmp_path: Path) -> None:
    def draw(sample: float, name: str) -> int:
        recorder = Recorded(tmp_path, sample=sample).recorder
        requests = [params(response_id=name.format(number)) for number in range(4000)]
        return sum(recorder.start(request, []) is not None for request in requests)

    # The CRC of the second is within the first 2 %, that of the last within the other half.
    for name in ("chatcmpl-{}", "chatcmpl-70", "chatcmpl-0"):
        assert 100 <= draw(0.05, name) <= 300, name
    assert draw(0.0, "chatcmpl-{}") == 0
    assert draw(1.0, "chatcmpl-{}") == 4000


@given(st.floats(0.01, 1), st.lists(st.floats(0, 1), max_size=SAMPLE_AHEAD))
def test_a_worker_records_what_its_frontend_draws(share: float, draws: list[float]) -> None:
    frontend, worker, smaller = Sample(share), Sample(share), Sample(share / 2)
    for drawn in draws:
        selected = frontend.selects(drawn)
        assert worker.selects(drawn) is selected
        assert selected or not smaller.selects(drawn)


def test_a_frontend_cannot_force_a_worker_beyond_its_share() -> None:
    sample = Sample(0.05)
    selected = sum(sample.selects(0.0) for _ in range(10_000))
    assert selected <= SAMPLE_AHEAD + 0.05 * 10_000 + 1
    assert not any(Sample(0.0).selects(drawn) for drawn in (0.0, math.nan, -math.inf))


@pytest.mark.parametrize("value", ["on", "1", "True"])
def test_a_header_asks_where_it_may(tmp_path: Path, value: str) -> None:
    may = Recorded(tmp_path, sample=0.0, on_request=True).recorder
    may_not = Recorded(tmp_path, sample=0.0).recorder
    assert may.start(params(), [], header(value)) is not None
    assert may_not.start(params(), [], header(value)) is None


@pytest.mark.parametrize("context", [None, SimpleNamespace(), header("off"), header("")])
def test_nothing_asks(tmp_path: Path, context: Any) -> None:
    recorder = Recorded(tmp_path, sample=0.0, on_request=True).recorder
    assert recorder.start(params(), [], context) is None


def test_a_long_answer_is_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_RECORDED_TOKENS", 10)
    recorded = Recorded(tmp_path, content=True)
    request = recorded.start(prompt_length=3)
    for _ in range(4):
        request.add(Chunk(token_ids=[1, 2, 3, 4]), 10.0)
        request.sent([ChoiceDelta(0, Delta(content="a"))], 10.0)
    request.end("finished")
    (found,) = recorded.read()
    assert (len(found.chunks), len(found.sent), found.dropped) == (2, 2, 8)


def test_requests_hold_a_bounded_number_of_tokens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_HELD_TOKENS", 10)
    recorded = Recorded(tmp_path)
    first = recorded.start(prompt_length=3)
    top = [[EngineLogprob(), EngineLogprob()]]
    first.add(Chunk(token_ids=[1], logprobs=[0.0], top_logprobs=top), 10.0)
    assert recorded.recorder.taken == 3
    first.add(Chunk(token_ids=[1] * 7), 10.0)
    assert recorded.recorder.start(params(), []) is None
    assert recorded.writer.counts.results["overload"] == 1
    first.end("finished")
    recorded.read()
    assert recorded.recorder.released == recorded.recorder.taken == 10
    assert recorded.recorder.start(params(), []) is not None


def test_a_recorder_without_parsers(tmp_path: Path) -> None:
    recorder = Recorded(tmp_path).recorder.without_parsers()
    assert recorder.model.parsers == ParserNames()
    assert recorder.model.path == MODEL.path


def test_only_the_tail_of_a_long_prompt_is_kept_beside_its_hash(tmp_path: Path) -> None:
    recorded = Recorded(tmp_path, content=True, prompts=False)
    prompt = list(range(TAIL_TOKENS + 5))
    request = recorded.recorder.start(params(prompt_length=len(prompt)), prompt)
    assert request is not None
    request.end("finished")
    (found,) = recorded.read()
    assert (found.prompt.token_ids, found.prompt.tail) == (None, prompt[5:])
    assert found.prompt.sha256 == hash_ids(prompt) != hash_ids(prompt[:-1])


def test_a_logprob_of_minus_infinity_can_be_read_again(tmp_path: Path) -> None:
    """A grammar gives all tokens but one of it; JSON would have null."""
    recorded = Recorded(tmp_path, content=True)
    low = EngineLogprob(token_id=1, logprob=-math.inf)
    request = recorded.start(prompt_length=3)
    request.add(Chunk(token_ids=[1], logprobs=[-math.inf], top_logprobs=[[low]]), 11.0)
    request.end("finished")
    ((found,),) = (recording.chunks for recording in recorded.read())
    assert found.chunk.logprobs == [LEAST]
    assert found.chunk.top_logprobs == [[EngineLogprob(token_id=1, logprob=LEAST)]]


@given(
    sizes=st.lists(st.integers(0, 4), max_size=6),
    more=st.lists(
        st.tuples(st.integers(1, 9), st.lists(st.integers(0, 4), max_size=4)), max_size=3
    ),
)
def test_discarded_tokens_are_set_aside(
    sizes: list[int], more: list[tuple[int, list[int]]]
) -> None:
    """more: how many tokens an attempt discards, and the chunks after that."""
    request = RequestRecorder(SimpleNamespace(taken=0), params(), [], 1000)  # type: ignore[arg-type]  # counts
    numbers = itertools.count()
    expected: list[int] = []
    discarded: list[list[int]] = []

    def add(chunks: list[int]) -> None:
        for size in chunks:
            token_ids = list(itertools.islice(numbers, size))
            request.add(Chunk(token_ids=token_ids), float(len(expected)))
            expected.extend(token_ids)

    add(sizes)
    for tokens, chunks in more:
        request.take_back(min(tokens, len(expected)), "slip")
        if expected:
            discarded.append(expected[-tokens:])
            del expected[-tokens:]
        add(chunks)
    assert [number for chunk in request.chunks for number in chunk.token_ids] == expected
    assert len(request.times) == len(request.chunks)
    taken = [
        [number for _, chunk in call for number in chunk.token_ids]
        for _, _, call in request.discarded
    ]
    assert taken == discarded
