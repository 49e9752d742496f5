"""No word of an answer stays in what is recorded of it."""

from __future__ import annotations

import re
from typing import Any

import msgspec
import pytest
from backedge.parsers.base import ParserNames
from backedge.postprocess import ChoiceDelta, Chunk
from backedge.postprocess.messages import Delta, FunctionDelta, ToolCallDelta
from backedge.recording.flags import RecordSettings
from backedge.recording.kept_text import KeptText, is_replaced
from backedge.recording.recorder import Recorder, RequestRecorder
from backedge.recording.recording import RecordedModel, Recording
from backedge.recording.redaction import (
    name_error,
    redact_recording,
)
from backedge.recording.writer import RecordingWriter
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.recording.redacting import (
    decode,
    for_request,
    redact,
    redactor,
)
from tests.support import (
    NAMES,
    TRANSCRIPTS,
    Transcript,
    encode,
    params,
    parser_request,
    tiny_tokenizer,
)

ESCAPE = re.compile(r"\\[\\bfnrtu]|&(?:lt|gt|amp);")
WORD = re.compile(r"[^\W\d_]{2,}")
WEATHER = next(found for found in TRANSCRIPTS.values() if found.get("tools"))


def kept_words() -> set[str]:
    texts = ["true", "false", "null", "None", "True", "False"]
    texts += ["name", "arguments", "parameters", "function", "id", "tool_call", "think"]
    texts += ["string", "number", "integer", "boolean", "object", "array", "item"]
    return {word for text in texts for word in WORD.findall(text)}


SCRIPTS = st.text(st.characters(codec="utf-8"))


@settings(max_examples=60, deadline=None, database=None)
@given(
    parts=st.lists(
        st.one_of(
            SCRIPTS,
            st.sampled_from(
                [
                    *(
                        "secret",
                        " Secret",
                        "\\u0073ecret",
                        "\\nsecret",
                        "secret1e5",
                        "n\u00e4rrisch",
                    ),
                    *(
                        "<secret>",
                        '"secret"',
                        "secret_word",
                        "get_weathers",
                        "citysecret",
                        "&secret;",
                    ),
                    *("get_weather", '"city"', "true", "<tool_call>", "<think>", "[SECRET]", "\\"),
                ]
            ),
        ),
        max_size=8,
    ),
    cuts=st.integers(1, 5),
)
def test_no_word_stays(parts: list[str], cuts: int) -> None:
    request = parser_request(WEATHER)
    redacting = for_request(parser=request)
    token_ids = encode("".join(parts))
    chunks = [token_ids[start : start + cuts] for start in range(0, len(token_ids), cuts)]
    redacted = decode([new for ids in redacting.redact(chunks) for new in ids])
    allowed = kept_words()
    for word in WORD.findall(ESCAPE.sub(" ", redacted)):
        assert word in allowed or set(word) <= {redacting.kept.letter}, redacted
    assert not any(map(is_replaced, re.sub(r"[0-9A-Za-z]", "", redacted))), redacted


# Words in braille, circled, squared and regional letters, tags, SignWriting, and with marks.
ODD = [
    *("\u280e\u2811\u2809", "\u24c8\u24ba", "\U0001f142\U0001f134", "\U0001f1f8\U0001f1ea"),
    *("\U000e0073\U000e0065", "\U0001d800\U0001d801", "\U0001f44b\U0001f3fd", "\u0905\u0903"),
    *("\u200b\u200d", "\ue000"),
]


@pytest.mark.parametrize("word", ODD, ids=ascii)
def test_no_script_stays(word: str) -> None:
    redacted = decode(redact(for_request(), encode(f"a {word}, b")))
    assert set(redacted) <= set("x, ")


def test_a_name_within_a_longer_word_is_no_name() -> None:
    redacting = for_request(parser=parser_request(WEATHER))
    for mark in ("\u0301", "\u24c8", "\u200d"):
        redacted = decode(redact(redacting, encode(f"get_weather{mark} true{mark}")))
        assert not {"get", "weather", "true"} & set(re.findall("[a-z]+", redacted)), redacted


NO_CLASS = ["zebra crossing", "zebra: x", "ZebraError: x", "", "zebra\nKeyError: x"]


@pytest.mark.parametrize("error", NO_CLASS)
def test_an_error_keeps_only_a_known_class(error: str) -> None:
    assert name_error(error) == "error"
    assert name_error(f"ParserFailedError: {error}") == "ParserFailedError"
    assert name_error(f"ValueError: {error}") == "ValueError"


def test_a_token_that_stays_keeps_its_id_and_its_chunk() -> None:
    text = '<tool_call>\n{"name": "", "arguments": [null, {}]}\n</tool_call>'
    token_ids = encode(text)
    redacting = for_request(parser=parser_request(WEATHER))
    assert redacting.redact([[one] for one in token_ids]) == [[one] for one in token_ids]


def test_characters_of_several_tokens() -> None:
    redacting = for_request()
    assert decode(redact(redacting, encode("\u6e38\u620f \U0001f44b\U0001f3fd"))) == "xx xx"
    half = encode("\u6e38")[:1]
    assert redact(redacting, half) == [], "half a character at the end is no text"


def test_deltas_lose_words_and_keep_their_kind() -> None:
    redacting = for_request(parser=parser_request(WEATHER), stop=["END"])
    name = WEATHER["tools"][0]["function"]["name"]
    call = ToolCallDelta(1, FunctionDelta('{"a": 1}', name), "call_secret", "function")
    unknown = ToolCallDelta(2, FunctionDelta("", "secret"), None, None)
    delta = ChoiceDelta(3, Delta(tool_calls=[call, unknown]), "stop", "END", [], [1, 2])
    new, stop = redacting.kept.renamed[name], redacting.kept.stops["END"]
    assert redacting.redact_delta(delta) == ChoiceDelta(
        3,
        Delta(
            tool_calls=[
                ToolCallDelta(1, FunctionDelta("........", new), None, "function"),
                ToolCallDelta(2, FunctionDelta("", redacting.kept.letter), None, None),
            ]
        ),
        "stop",
        stop,
    )
    assert redacting.redact_delta(ChoiceDelta(0, Delta("assistant", "secret"))) == (
        ChoiceDelta(0, Delta("assistant", "......"))
    )
    reasoning = ChoiceDelta(0, Delta(reasoning_content="secret"))
    assert redacting.redact_delta(reasoning).delta == Delta(reasoning_content="......")


def redacted(**fields: Any) -> Recording:
    """Return the redacted recording of a request. chunks: all at the same time."""
    given: dict[str, Any] = {
        "model": RecordedModel(path="m", parsers=ParserNames("hermes")),
        "params": params(prompt_length=0),
        "token_ids": [],
        **fields,
    }
    given["times"] = [5.0] * len(given["chunks"])
    given["deltas"] = given.pop("sent", [])
    error = given.pop("error", None)
    settings = RecordSettings(folder="unused")
    writer = RecordingWriter(settings, "worker")
    recorder = Recorder(settings, writer, "worker", given.pop("model"), redactor)
    request = RequestRecorder(recorder, room=1, began=1.0, since=5.0, **given)
    return redact_recording(request.build(error=error), redactor())


def test_choices_are_redacted_by_themselves() -> None:
    """A word of one choice that goes on in its next chunk is no word of the other's."""
    left, right = encode("<tool_call>"), encode("</tool_call>")
    mixed = [
        Chunk(index=index, token_ids=[token_id])
        for pair in zip(left, right, strict=True)
        for index, token_id in enumerate(pair)
    ]
    found = redacted(chunks=mixed, params=params(n=2))
    for index, token_ids in enumerate((left, right)):
        chunks = [item.chunk for item in found.chunks if item.chunk.index == index]
        assert [token_id for chunk in chunks for token_id in chunk.token_ids] == token_ids


def test_the_tokens_of_a_worker_that_died_are_redacted_with_what_follows() -> None:
    ids = encode('{"name": "secret"}')
    found = redacted(token_ids=ids[:5], chunks=[Chunk(token_ids=ids[5:], finish_reason="stop")])
    text = tiny_tokenizer().decode([one for item in found.chunks for one in item.chunk.token_ids])
    assert (text.replace("x", ""), found.resumed) == ('{"name": ""}', 5)


def test_a_delta_has_dots_for_characters() -> None:
    calls = [ToolCallDelta(0, FunctionDelta("123", "f"), "id"), ToolCallDelta(0, FunctionDelta(""))]
    found = for_request().redact_delta(ChoiceDelta(0, Delta("assistant", "12", "", calls)))
    bare = [ToolCallDelta(0, FunctionDelta("...", "x")), ToolCallDelta(0, FunctionDelta(""))]
    assert found == ChoiceDelta(0, Delta("assistant", "..", "", bare))


@pytest.mark.parametrize("transcript", TRANSCRIPTS.values(), ids=TRANSCRIPTS)
def test_a_redacted_recording_holds_no_word(transcript: Transcript) -> None:
    """Not in its tokens, deltas, parameters and error, nor in the tail of its prompt."""
    request = parser_request(transcript)
    token_ids = encode(transcript["output"])
    said = f"{transcript['messages']} {transcript['expect']} {transcript.get('tools')}"
    prompt = encode(said)
    delta = ChoiceDelta(0, Delta(content=said, reasoning_content=said))
    found = redacted(
        params=params(parser=request, prompt_length=len(prompt)),
        model=RecordedModel(path="m", parsers=NAMES),
        token_ids=prompt,
        chunks=[Chunk(token_ids=token_ids, finish_reason="stop")],
        sent=[(5.0, [delta])],
        error=f"Exception: {said}",
    )
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
    return "".join(one if mark is None else " " for one, mark in marks)


# Field names and roles, which transcripts name as well.
STRUCTURE = {
    *("index", "delta", "role", "content", "reasoning", "tool", "calls", "finish", "reason"),
    *("assistant", "user", "system", "stop", "start", "end", "Exception", "logprobs", "token"),
}
