"""A recording is read as it was written."""

from __future__ import annotations

import msgspec
from backedge.parsers.base import ParserNames
from backedge.postprocess.messages import ChoiceDelta, Chunk, Delta, PostprocessParams
from backedge.recording.recording import (
    RecordedChunk,
    RecordedDeltas,
    RecordedModel,
    RecordedPrompt,
    Recording,
)

RECORDING = Recording(
    source="worker",
    began=1.5,
    model=RecordedModel(path="m", engine="replay", parsers=ParserNames("hermes", "qwen3")),
    params=PostprocessParams(response_id="r", created=1, model="m", prompt_length=3),
    prompt=RecordedPrompt(sha256="00", tail=[1, 2]),
    chunks=[RecordedChunk(0.5, Chunk(token_ids=[7], finish_reason="stop"))],
    sent=[RecordedDeltas(0.75, [ChoiceDelta(index=0, delta=Delta(content="a"))])],
)


def test_is_one_line_and_comes_back() -> None:
    line = msgspec.json.encode(RECORDING)
    assert b"\n" not in line
    assert msgspec.json.decode(line, type=Recording) == RECORDING
