"""Recordings as a worker writes them, for the tests of commands."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
from backedge.recording.recording import Recording
from backedge.recording.redaction import Redactor, redact_recording

from tests.recording.test_rerun import record_call
from tests.support import TRANSCRIPTS, tiny_detokenizers

CALL = TRANSCRIPTS["reasoning_call"]


def redact(recording: Recording) -> Recording:
    """Return the recording as it is written without content."""
    return redact_recording(recording, Redactor(tiny_detokenizers()))


def write(path: Path, *recordings: Recording) -> str:
    """Write recordings into a file; return its path."""
    path.write_bytes(b"".join(msgspec.json.encode(each) + b"\n" for each in recordings))
    return str(path)


def tamper(recording: Recording, letter: str = "?") -> Recording:
    """Return a recording of which the client got another first letter of the reasoning."""
    changed = msgspec.convert(msgspec.to_builtins(recording), Recording)
    deltas = (delta for sent in changed.sent for delta in sent.deltas)
    first = next(delta.delta for delta in deltas if delta.delta.reasoning_content)
    first.reasoning_content = letter + (first.reasoning_content or "")[1:]
    return changed


def call(**fields: Any) -> Recording:
    """Return a recording of reasoning and a call, in chunks that hold a whole word."""
    return record_call(1000, **fields)
