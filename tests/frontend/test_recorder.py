"""What a frontend records of the requests that it serves."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from backedge.frontend.factory import EngineFactory
from backedge.frontend.flags import FrontendFlags
from backedge.frontend.response.worker_stream import StreamReader, WorkerError
from backedge.parsers.base import ParserNames
from backedge.postprocess import Postprocessor
from backedge.postprocess.messages import WorkerCard
from backedge.recording.flags import RecordSettings
from backedge.recording.recorder import Recorder
from backedge.recording.recording import RecordedModel, Recording
from backedge.recording.recording_file import read_recordings
from backedge.recording.redaction import Redactor
from backedge.recording.writer import RecordingWriter
from backedge.tokenization.tokenizer_selection import TokenizerSelection

from tests.engines.frontends.all_edges import CONFIG
from tests.frontend.doubles import Context, Engine
from tests.frontend.response.test_worker_stream import TEXT, everything, nothing, outputs
from tests.support import encode, params, tiny_detokenizers


def record(
    folder: Path, items: list[Any], *, take: int = 1000, **fields: Any
) -> tuple[Recording, BaseException | None]:
    """Return the recording of a stream of which the client reads `take` chunks, and its error."""
    settings = RecordSettings(folder=str(folder), content=True)
    writer = RecordingWriter(settings, "frontend")
    recorder = Recorder(
        settings,
        writer,
        "frontend",
        RecordedModel(path="m"),
        lambda: Redactor(tiny_detokenizers()),
    )
    request = params(**fields)

    async def read() -> BaseException | None:
        reader = StreamReader(
            request,
            lambda: Postprocessor(request, tiny_detokenizers()),
            recorder.start(request, []),
        )
        chunks = cast("AsyncIterator[Any]", reader.read_and_record(Engine(items), {}, Context()))
        seen = 0
        try:
            async for _ in chunks:
                seen += 1
                if seen == take:
                    break
        except WorkerError as error:
            return error
        finally:
            await chunks.aclose()  # type: ignore[attr-defined]  # it is a generator
        return None

    error = asyncio.run(read())
    writer.close()
    (file,) = folder.iterdir()
    (found,) = list(read_recordings(file))
    return found, error


@pytest.mark.parametrize("processed", [everything, nothing], ids=["worker", "frontend"])
def test_a_request_that_finishes(tmp_path: Path, processed: Any) -> None:
    found, error = record(tmp_path, outputs(processed))
    assert (found.source, found.outcome, error) == ("frontend", "finished", None)
    tokens = [token_id for item in found.chunks for token_id in item.chunk.token_ids]
    assert tokens == [*encode(TEXT), *encode("<|im_end|>")]
    texts = [delta.delta.content or "" for item in found.sent for delta in item.deltas]
    assert "".join(texts) == TEXT
    assert found.chunks[-1].chunk.finish_reason == "stop"


def test_a_workers_stop_string_is_text_of_its_last_chunk(tmp_path: Path) -> None:
    """The token that ends a choice has no text; here the worker has found the string in it."""
    items = outputs(everything, stop=["three"])[:7]
    items[-1] |= {"finish_reason": "stop", "stop_reason": "three"}
    found, _ = record(tmp_path, items, take=7, stop=["three"])
    assert found.chunks[-1].chunk.finish_reason is None
    assert found.chunks[-1].chunk.stop_reason == "three"


def test_a_client_that_leaves(tmp_path: Path) -> None:
    found, _ = record(tmp_path, outputs(nothing), take=3)
    assert (found.outcome, len(found.chunks)) == ("cancelled", 3)


def test_a_worker_that_fails(tmp_path: Path) -> None:
    found, error = record(tmp_path, [*outputs(nothing, upto=2), {"finish_reason": "error: boom"}])
    assert isinstance(error, WorkerError)
    assert (found.outcome, found.error) == ("failed", "WorkerError: error: boom")
    assert len(found.chunks) == 2


def test_the_models_are_told_apart(tmp_path: Path) -> None:
    record = RecordSettings(folder=str(tmp_path))
    ours = FrontendFlags(TokenizerSelection(), "auto", [], record=record)
    factory = EngineFactory(CONFIG, argparse.Namespace(), ours)
    builder: Any = SimpleNamespace(
        path="m",
        worker_card=WorkerCard(engine="vllm", engine_version="0.31.0"),
        configured=SimpleNamespace(names=ParserNames("hermes", "qwen3")),
        kind="linear",
    )
    blocks: Any = SimpleNamespace(local_factories=lambda: (tiny_detokenizers(), None))
    found = cast("Any", factory.build_recorder(builder, blocks)).model
    assert (found.path, found.engine, found.kind) == ("m", "vllm", "linear")
    assert found.parsers == ParserNames("hermes", "qwen3")
    builder.worker_card = None
    found = cast("Any", factory.build_recorder(builder, blocks)).model
    assert found.engine == ""
