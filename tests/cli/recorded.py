"""Recordings for the tests of the command line, made of the transcripts."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import msgspec
from backedge.parsers.base import ParserNames
from backedge.postprocess import Chunk, Postprocessor
from backedge.recording.recording import (
    RecordedChunk,
    RecordedDeltas,
    RecordedModel,
    RecordedPrompt,
    Recording,
)

from tests.support import (
    NAMES,
    TINY_MODEL,
    TRANSCRIPTS,
    chunks,
    encode,
    params,
    parser_request,
    tiny_detokenizers,
    tiny_parsers,
)

STEP_MS = 10.0
SENT_AFTER_MS = 0.25
PROMPT = [1, 2, 3]


def record_chunks(
    parts: list[Chunk], names: ParserNames = NAMES, path: str = str(TINY_MODEL), **fields: Any
) -> Recording:
    """Return the recording of a request whose engine gives a chunk every `STEP_MS`."""
    request = params(**{"prompt_length": len(PROMPT), **fields})
    parsers = tiny_parsers(names)
    post = Postprocessor(request, tiny_detokenizers(), parsers, prompt_token_ids=PROMPT)
    recorded, sent = [], []
    for number, part in enumerate(parts, 1):
        at_ms = number * STEP_MS
        recorded.append(RecordedChunk(at_ms, part))
        if deltas := post.feed(part):
            sent.append(RecordedDeltas(at_ms + SENT_AFTER_MS, deltas))
    return Recording(
        source="worker",
        began=1.5e9,
        model=RecordedModel(path=path, engine="replay", parsers=names, kind="linear"),
        params=request,
        prompt=RecordedPrompt(
            sha256=hashlib.sha256(repr(PROMPT).encode()).hexdigest(), token_ids=PROMPT
        ),
        chunks=recorded,
        sent=sent,
    )


def record_text(
    text: str, every: int = 3, finish_reason: str = "stop", **options: Any
) -> Recording:
    """Return a recording of `text`, in chunks of `every` tokens."""
    token_ids = encode(text)
    cuts = range(every, len(token_ids), every)
    return record_chunks(chunks(token_ids, cuts, finish_reason), **options)


def record_transcript(name: str, every: int = 3, **fields: Any) -> Recording:
    """Return a recording of a transcript."""
    transcript = TRANSCRIPTS[name]
    options = {"response_id": f"chatcmpl-{name}", "parser": parser_request(transcript), **fields}
    return record_text(transcript["output"], every, **options)


def write(path: Path, *recordings: Recording) -> Path:
    """Write recordings to a file, and return its path."""
    path.write_bytes(b"".join(msgspec.json.encode(each) + b"\n" for each in recordings))
    return path
