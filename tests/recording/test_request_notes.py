"""The recording that is made of a request."""

from __future__ import annotations

import math
import re
from typing import Any

import msgspec
import pytest
from backedge.base.limits import TAIL_TOKENS
from backedge.parsers.base import ParserNames
from backedge.postprocess import ChoiceDelta, Chunk
from backedge.postprocess.logprobs import LEAST
from backedge.postprocess.messages import Delta, EngineLogprob, FunctionDelta, ToolCallDelta
from backedge.recording.kept_text import GONE, KeptText
from backedge.recording.recording import RecordedModel, Recording
from backedge.recording.redaction import Redactor
from backedge.recording.request_notes import RequestNotes, hash_ids, measure_texts

from tests.support import (
    NAMES,
    TRANSCRIPTS,
    Transcript,
    encode,
    params,
    parser_request,
    tiny_detokenizers,
    tiny_tokenizer,
)


def notes(**fields: Any) -> RequestNotes:
    given = {
        "source": "worker",
        "model": RecordedModel(path="m", parsers=ParserNames("hermes")),
        "began": 1.0,
        "since": 5.0,
        "params": params(prompt_length=0),
        "token_ids": [],
        "chunks": [],
        "sent": [],
        "outcome": "finished",
    }
    return RequestNotes(**{**given, **fields})


def test_only_the_tail_of_a_long_prompt_is_kept_beside_its_hash() -> None:
    prompt = list(range(TAIL_TOKENS + 5))
    made = notes(params=params(prompt_length=len(prompt)), token_ids=prompt)
    found = made.build(with_prompt=False).prompt
    assert (found.token_ids, found.tail) == (None, prompt[5:])
    assert found.sha256 == hash_ids(prompt) != hash_ids(prompt[:-1])


def test_choices_are_redacted_by_themselves() -> None:
    """A word of one choice that goes on in its next chunk is no word of the other's."""
    left, right = encode("<tool_call>"), encode("</tool_call>")
    mixed = [
        (5.0, Chunk(index=index, token_ids=[token_id]))
        for pair in zip(left, right, strict=True)
        for index, token_id in enumerate(pair)
    ]
    found = notes(chunks=mixed, params=params(n=2)).build_redacted(Redactor(tiny_detokenizers()))
    for index, token_ids in enumerate((left, right)):
        chunks = [item.chunk for item in found.chunks if item.chunk.index == index]
        assert [token_id for chunk in chunks for token_id in chunk.token_ids] == token_ids


def test_the_tokens_of_a_worker_that_died_are_redacted_with_what_follows() -> None:
    ids = encode('{"name": "secret"}')
    found = notes(
        token_ids=ids[:5], chunks=[(5.0, Chunk(token_ids=ids[5:], finish_reason="stop"))]
    ).build_redacted(Redactor(tiny_detokenizers()))
    text = tiny_tokenizer().decode([one for item in found.chunks for one in item.chunk.token_ids])
    assert (text.replace("x", ""), found.resumed) == ('{"name": ""}', 5)


def test_every_text_is_measured() -> None:
    calls = [ToolCallDelta(0, FunctionDelta("123", "name")), ToolCallDelta(0, FunctionDelta("4"))]
    assert measure_texts(ChoiceDelta(0, Delta("assistant", "12", "345", calls))) == [3, 2, 3, 1]
    assert measure_texts(ChoiceDelta(0, Delta(content="12"))) == [2]
    assert measure_texts(ChoiceDelta(0)) == []


def test_a_logprob_of_minus_infinity_can_be_read_again() -> None:
    """A grammar gives all tokens but one of it; JSON would have null."""
    low = EngineLogprob(token_id=1, logprob=-math.inf)
    chunk = Chunk(token_ids=[1], logprobs=[-math.inf], top_logprobs=[[low]])
    line = msgspec.json.encode(notes(chunks=[(5.0, chunk)]).build(with_prompt=False))
    (found,) = msgspec.json.decode(line, type=Recording).chunks
    assert found.chunk.logprobs == [LEAST]
    assert found.chunk.top_logprobs == [[EngineLogprob(token_id=1, logprob=LEAST)]]


@pytest.mark.parametrize("transcript", TRANSCRIPTS.values(), ids=TRANSCRIPTS)
def test_a_redacted_recording_holds_no_word(transcript: Transcript) -> None:
    """Not in its tokens, deltas, parameters and error, nor in the tail of its prompt."""
    request = parser_request(transcript)
    token_ids = encode(transcript["output"])
    said = f"{transcript['messages']} {transcript['expect']} {transcript.get('tools')}"
    prompt = encode(said)
    delta = ChoiceDelta(0, Delta(content=said, reasoning_content=said))
    found = notes(
        params=params(parser=request, prompt_length=len(prompt)),
        model=RecordedModel(path="m", parsers=NAMES),
        token_ids=prompt,
        chunks=[(5.0, Chunk(token_ids=token_ids, finish_reason="stop"))],
        sent=[(5.0, [delta])],
        error=f"Exception: {said}",
    ).build_redacted(Redactor(tiny_detokenizers()))
    ids = [one for item in found.chunks for one in item.chunk.token_ids] + found.prompt.tail
    kept = KeptText(params(parser=request), NAMES)
    text = without_kept(kept, tiny_tokenizer().decode(ids, skip_special_tokens=False))
    written = msgspec.json.encode([found.params.parser.chat_template_kwargs, found.sent])
    text += without_kept(kept, written.decode()) + (found.error or "")
    words = set(re.findall(r"[^\W\d_]{3,}", without_kept(kept, said)))
    left = set(re.findall(r"[^\W\d_]{3,}", text))
    assert words & left <= STRUCTURE


def without_kept(kept: KeptText, text: str) -> str:
    """Return `text` with a space for each character that stays."""
    marks = zip(text, kept.mask(text), strict=True)
    return "".join(one if mark == GONE else " " for one, mark in marks)


# Field names and roles, which transcripts name as well.
STRUCTURE = {
    *("index", "delta", "role", "content", "reasoning", "tool", "calls", "finish", "reason"),
    *("assistant", "user", "system", "stop", "start", "end", "Exception", "logprobs", "token"),
}
