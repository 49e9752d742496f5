"""What a worker records of the requests that it post-processes."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from backedge.parsers.base import ParserFactory
from backedge.postprocess import Chunk
from backedge.postprocess.delta_builder import aggregate_deltas
from backedge.postprocess.settings import PostprocessSettings
from backedge.recording import redaction
from backedge.recording.flags import RecordSettings
from backedge.recording.recording import RecordedModel, Recording
from backedge.recording.recording_file import read_recordings
from backedge.recording.rerun import Parts, cut, find_differences, read_sent, rerun
from backedge.worker.backend import PostprocessBackend
from backedge.worker.build import build_recorder
from backedge.worker.metrics import WorkerMetrics
from backedge.worker.request_stream import WorkerPostprocessor
from backedge.worker.stock_frontends import build_stock_postprocessor
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.support import (
    NAMES,
    TRANSCRIPTS,
    encode,
    params,
    parser_request,
    tiny_detokenizers,
    tiny_parsers,
)
from tests.worker.pool.pools import in_pool
from tests.worker.scripted import (
    IDS,
    LOWEST,
    TEXT,
    BrokenParsers,
    CountingBackend,
    Engine,
    Step,
    output,
    run_in_virtual_time,
)

MODEL = RecordedModel(path="m", engine="replay")
MakeWorker = Callable[..., WorkerPostprocessor]


def record(
    folder: Path,
    script: list[Step],
    make: MakeWorker = WorkerPostprocessor,
    *,
    parsers: ParserFactory | None = None,
    token_ids: tuple[int, ...] = (),
    take: int = 1000,
    content: bool = True,
    model: RecordedModel = MODEL,
    **fields: Any,
) -> tuple[Recording, list[Any]]:
    """Return the recording of a request of which the client takes `take` chunks, and these."""
    metrics = WorkerMetrics()
    settings = RecordSettings(folder=str(folder), content=content)
    recorder = build_recorder(settings, model, tiny_detokenizers(), metrics)
    assert recorder is not None

    async def answer() -> list[Any]:
        engine = Engine(script)
        sent: list[Any] = []
        backend = CountingBackend(LOWEST, parsers, on_error=fields.pop("on_error", "degrade"))
        worker = make(backend, metrics, recorder=recorder)
        chunks = worker.stream(engine.outputs(), params(**fields), list(token_ids), engine)
        try:
            async for chunk in chunks:
                sent.append(chunk)
                if len(sent) == take:
                    break
        except RuntimeError as error:
            sent.append(error)
        await chunks.aclose()
        return sent

    sent = run_in_virtual_time(answer())
    recorder.writer.close()
    assert metrics.recordings.results["written"] == 1
    (file,) = folder.iterdir()
    (found,) = list(read_recordings(file))
    return found, sent


WORDS: list[Step] = [output("Hello"), 0.5, output(" you", finish_reason="stop")]


def test_a_request_that_finishes(tmp_path: Path) -> None:
    found, _ = record(tmp_path, WORDS)
    assert found.source == "worker"
    assert found.outcome == "finished"
    assert found.model.backedge_version
    assert [item.chunk.token_ids for item in found.chunks] == [encode("Hello"), encode(" you")]
    assert [item.at_ms for item in found.chunks] == [0.0, 500.0]
    deltas = [delta for item in found.sent for delta in item.deltas]
    whole = aggregate_deltas(deltas).delta.content or ""
    assert whole.startswith("Hello")
    assert [item.at_ms for item in found.sent] == [0.0, 500.0]


# Most of these characters take several of the model's tokens.
FOREIGN = st.text("ab 1,世界é👋🏽üこん", max_size=12)
ANSWERS = st.builds(
    "<think>{}</think>{}{}{}".format,
    FOREIGN,
    FOREIGN,
    st.sampled_from(
        ["", *(TRANSCRIPTS[name]["output"] for name in ("tool_call", "parallel_calls"))]
    ),
    FOREIGN,
)


@pytest.fixture(scope="module")
def _searched_once() -> Iterator[None]:
    """The redaction of one example after the other, without the search of the vocabulary."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(redaction, "find_short_tokens", functools.cache(redaction.find_short_tokens))
        yield


@pytest.mark.usefixtures("_searched_once")
@settings(max_examples=150, deadline=None)
@example("<think></think>1世", ["世", "1世"], 1, False, "recorded")  # both end together
@given(
    answer=ANSWERS,
    stop=st.lists(FOREIGN.filter(bool), max_size=3),
    size=st.integers(1, 5),
    stream=st.booleans(),
    how=st.sampled_from(["recorded", "1", "3", "all"]),
)
def test_a_recording_without_words_replays_as_it_was_sent(
    answer: str, stop: list[str], size: int, stream: bool, how: str
) -> None:
    ids, parser = encode(answer), parser_request(TRANSCRIPTS["parallel_calls"])
    cuts = [ids[start : start + size] for start in range(0, len(ids), size)]
    script: list[Step] = [{"index": 0, "token_ids": each} for each in cuts]
    script.append(output("", finish_reason="stop"))
    with TemporaryDirectory() as folder:
        found, _ = record(
            *(Path(folder), script),
            parsers=tiny_parsers(),
            content=False,
            model=RecordedModel(path="m", parsers=NAMES, kind="linear"),
            stop=stop,
            stream=stream,
            parser=parser,
        )
    assert found.redacted
    again = rerun(found, Parts(tiny_detokenizers(), tiny_parsers()), cut(found, how))
    assert find_differences(found, read_sent(found), again, is_sent=True) == []


ENDS: dict[str, tuple[list[Step], dict[str, Any], str, str | None]] = {
    "an error of the engine": (
        [output("a"), output("", finish_reason="error: out of memory")],
        {},
        "failed",
        "error: out of memory",
    ),
    "the engine raises": ([output("a"), RuntimeError("boom")], {}, "failed", "RuntimeError: boom"),
    "a parser that raises": (
        [output(TEXT, finish_reason="stop")],
        {"parsers": BrokenParsers(), "on_error": "fail"},
        "failed",
        "ParserFailedError: ",
    ),
    "the client leaves": ([output("a"), 0.1, output("b"), 9.0], {"take": 1}, "cancelled", None),
    "the engine aborts": ([output("a", finish_reason="abort")], {}, "cancelled", None),
    "a parser that raises costs its request nothing": (
        [output(TEXT, finish_reason="stop")],
        {"parsers": BrokenParsers()},
        "finished",
        None,
    ),
}


@pytest.mark.parametrize(("script", "fields", "outcome", "error"), ENDS.values(), ids=ENDS)
def test_however_it_ends(
    tmp_path: Path, script: list[Step], fields: dict[str, Any], outcome: str, error: str | None
) -> None:
    found, _ = record(tmp_path, script, **fields)
    assert found.outcome == outcome
    assert (found.error or "").startswith(error or "")
    assert (found.error is None) == (error is None)
    assert found.chunks


@pytest.mark.parametrize("stream", [True, False])
def test_all_choices(tmp_path: Path, stream: bool) -> None:
    script: list[Step] = [
        output("a", 1),
        output("b", 0),
        output("c", 1, "stop"),
        output("d", 0, "length"),
    ]
    found, _ = record(tmp_path, script, n=2, stream=stream)
    assert [item.chunk.index for item in found.chunks] == [1, 0, 1, 0]
    finishes = {
        delta.index: delta.finish_reason
        for item in found.sent
        for delta in item.deltas
        if delta.finish_reason
    }
    assert finishes == {0: "length", 1: "stop"}


def test_a_migrated_request_begins_with_what_the_other_worker_sent(tmp_path: Path) -> None:
    found, _ = record(tmp_path, WORDS, token_ids=(7, 8, *encode("Oh. ")), prompt_length=2)
    assert found.resumed == len(encode("Oh. "))
    assert found.chunks[0].chunk == Chunk(token_ids=encode("Oh. "))
    assert found.prompt.token_ids == [7, 8]
    texts = [delta.delta.content for item in found.sent for delta in item.deltas]
    assert "Oh" not in "".join(text or "" for text in texts)


def test_a_stock_frontends_request(tmp_path: Path) -> None:
    def make(backend: PostprocessBackend, metrics: WorkerMetrics, recorder: Any) -> Any:
        settings = PostprocessSettings(delays=LOWEST)
        return build_stock_postprocessor(
            tiny_detokenizers(), [], settings, metrics, lambda error: error, recorder
        )

    found, _ = record(tmp_path, WORDS, make)
    deltas = [delta for item in found.sent for delta in item.deltas]
    assert "".join(delta.delta.content or "" for delta in deltas).startswith("Hello")
    assert len(found.chunks) == 2


def test_a_request_of_the_pool(tmp_path: Path) -> None:
    metrics = WorkerMetrics()
    settings = RecordSettings(folder=str(tmp_path), content=True)
    recorder = build_recorder(settings, MODEL, tiny_detokenizers(), metrics)

    async def use(pool: Any) -> None:
        engine = Engine([output(IDS), output("", finish_reason="stop")])
        worker = WorkerPostprocessor(pool, metrics, recorder=recorder)
        async for _ in worker.stream(engine.outputs(), params(), [], engine):
            pass

    in_pool(use)
    assert recorder is not None
    recorder.writer.close()
    (file,) = tmp_path.iterdir()
    (found,) = list(read_recordings(file))
    assert [item.chunk.token_ids for item in found.chunks] == [IDS, []]
    deltas = [delta for item in found.sent for delta in item.deltas]
    assert "".join(delta.delta.content or "" for delta in deltas) == TEXT


def test_nothing_is_recorded_without_the_flag() -> None:
    assert build_recorder(None, MODEL, tiny_detokenizers(), WorkerMetrics()) is None
