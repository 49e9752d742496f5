"""Redaction: the structure of an answer stays, and no word of it does."""

from __future__ import annotations

import functools
import re
from typing import Any

import msgspec
import pytest
from backedge.parsers.base import ParserNames, ParserRequest
from backedge.parsers.linear_parsers import NONEMPTY
from backedge.parsers.parser_lookup import reasoning_format, tool_format
from backedge.postprocess import ChoiceDelta, Chunk, Postprocessor, PostprocessParams
from backedge.postprocess.messages import Delta, FunctionDelta, ToolCallDelta
from backedge.recording.flags import RecordSettings
from backedge.recording.kept_text import KeptText, is_replaced
from backedge.recording.recorder import Recorder, RequestRecorder
from backedge.recording.recording import RecordedModel, Recording
from backedge.recording.redaction import (
    Redactor,
    RequestRedactor,
    measure_texts,
    name_error,
    redact_recording,
    redact_schema,
)
from backedge.recording.writer import RecordingWriter
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.samples.tokenizers import bpe
from benchmarks.samples.tokenizers import encode as encode_by
from tests.conformance.cases import Case, load_cases
from tests.conformance.runner import build_request as conformance_request
from tests.conformance.runner import read_prompt
from tests.parsers.families import FAMILIES
from tests.parsers.families.family import Family
from tests.parsers.sample_model import cached_detokenizers, cached_linear_parsers
from tests.parsers.test_families import build_names, build_request
from tests.recording.redacting import find_structure
from tests.support import (
    NAMES,
    TRANSCRIPTS,
    Transcript,
    encode,
    params,
    parser_request,
    tiny_detokenizers,
    tiny_parsers,
    tiny_tokenizer,
)

ESCAPE = re.compile(r"\\[\\bfnrtu]|&(?:lt|gt|amp);")
WORD = re.compile(r"[^\W\d_]{2,}")
# One case in so many of each family: enough for all kinds of them, in seconds.
STEP = 40
CONFORMANCE_STEP = 121
WEATHER = next(found for found in TRANSCRIPTS.values() if found.get("tools"))


@functools.cache
def redactor() -> Redactor:
    return Redactor(tiny_detokenizers())


def for_request(**fields: Any) -> RequestRedactor:
    return RequestRedactor(redactor(), params(**fields), NAMES)


def redact(redacting: RequestRedactor, token_ids: list[int]) -> list[int]:
    """Return the redacted tokens; each was a chunk of its own."""
    return [new for ids in redacting.redact([[one] for one in token_ids]) for new in ids]


def decode(token_ids: list[int]) -> str:
    text: str = tiny_tokenizer().decode(token_ids, skip_special_tokens=False)
    return text


@pytest.mark.parametrize("transcript", TRANSCRIPTS.values(), ids=TRANSCRIPTS)
def test_transcripts_keep_their_structure(transcript: Transcript) -> None:
    request = params(parser=parser_request(transcript), stop=transcript.get("stop", []))
    redacting = RequestRedactor(redactor(), request, NAMES)
    parsers = tiny_parsers()
    token_ids = encode(transcript["output"])
    assert find_structure(
        redacting.redact_params(request),
        tiny_detokenizers(),
        parsers,
        [],
        redact(redacting, token_ids),
    ) == find_structure(request, tiny_detokenizers(), parsers, [], token_ids).rename(
        redacting.kept.renamed
    )


@pytest.mark.parametrize("family", FAMILIES.values(), ids=lambda family: family.name)
def test_every_format_keeps_its_structure(family: Family) -> None:
    tokenizer, names = bpe(family.markers, family.special), build_names(family)
    detokenizers = cached_detokenizers(tokenizer)
    parsers = cached_linear_parsers(names, tokenizer)
    of_model = Redactor(detokenizers)
    for case in family.all_cases()[::STEP]:
        request = params(parser=build_request(case))
        redacting = RequestRedactor(of_model, request, names)
        prompt = encode_by(tokenizer, case.prompt)
        token_ids = [*encode_by(tokenizer, case.output), *encode_by(tokenizer, "<|im_end|>")]
        assert find_structure(
            redacting.redact_params(request),
            detokenizers,
            parsers,
            [new for ids in redacting.redact([prompt]) for new in ids],
            redact(redacting, token_ids),
            case.finish,
        ) == find_structure(request, detokenizers, parsers, prompt, token_ids, case.finish).rename(
            redacting.kept.renamed
        ), case.id


def find_tokenizer(case: Case) -> Any:
    """Return a tokenizer with the markers of a case's formats as tokens."""
    formats = tool_format(case.names.tool_call or ""), reasoning_format(case.names.reasoning or "")
    families = [FAMILIES[format_.name] for format_ in formats if format_ is not None]
    markers, special = (
        tuple(dict.fromkeys(text for family in families for text in getattr(family, kind)))
        for kind in ("markers", "special")
    )
    return bpe(markers, special)


@pytest.mark.skipif(not load_cases(), reason="the conformance cases are not there")
def test_conformance_cases_keep_their_structure() -> None:
    for case in load_cases()[::CONFORMANCE_STEP]:
        tokenizer = find_tokenizer(case)
        detokenizers = cached_detokenizers(tokenizer)
        parsers = cached_linear_parsers(case.names, tokenizer)
        request = params(parser=conformance_request(case))
        redacting = RequestRedactor(redactor_of(tokenizer), request, case.names)
        prompt = encode_by(tokenizer, read_prompt(case))
        output = encode_by(tokenizer, "".join(case.chunks) + "<|im_end|>")
        tail = [new for ids in redacting.redact([prompt]) for new in ids]
        answer = redact(redacting, output)
        assert find_structure(
            redacting.redact_params(request), detokenizers, parsers, tail, answer
        ) == find_structure(request, detokenizers, parsers, prompt, output).rename(
            redacting.kept.renamed
        ), case.id


@functools.cache
def redactor_of(tokenizer: Any) -> Redactor:
    return Redactor(cached_detokenizers(tokenizer))


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


def shorten(text: str) -> str:
    return re.sub("x+", "x", re.sub("1+", "1", text))


ESCAPES = {
    r'"a\nb"': r'"x\nx"',
    r'"\u00e9t\u00e9"': r'"\u1111x\u1111"',
    r'"\\nein"': r'"\\x"',
    "1.5e10, -20": "1.1e1, -1",
    "a &lt;b&gt; &amp;c": "x &lt;x&gt; &amp;x",
}


@pytest.mark.parametrize(("text", "expected"), ESCAPES.items())
def test_escapes_stay_escapes(text: str, expected: str) -> None:
    redacted = decode(redact(for_request(), encode(text)))
    # How many letters a word becomes is up to its tokens.
    assert shorten(redacted) == shorten(expected)
    assert redacted.count("1111") == expected.count("1111")


def test_a_stop_string_is_renamed_and_arises_nowhere_else() -> None:
    redacting = for_request(stop=["Observation: X", "x", "</tool_call>", "1, 1"])
    assert redacting.kept.stops == {
        # With a stop string of digits, names have letters for digits.
        "Observation: X": "Nq: Nz",
        "x": "Nj",
        "</tool_call>": "</tool_call>",
        "1, 1": "1, 1",
    }
    redacted = decode(redact(redacting, encode("My plan.\nObservation: X six")))
    assert redacted.count("Nq: Nz") == 1
    assert redacted.count("Nj") == 1, "the one of `six`, where the stop string was"


STOPS = [
    ["1, 1"],
    ["11"],
    ["x1"],
    ["、"],
    ["世界"],
    ["\U0001f44b\U0001f3fd"],
    ["こん", "ü"],
    [", 2"],
    ["🏽 "],
]


@pytest.mark.parametrize("size", [1, 3])
@pytest.mark.parametrize("stop", STOPS, ids="|".join)
@pytest.mark.parametrize("name", ["count", "multilingual_text"])
def test_an_answer_ends_at_the_same_stop_string(name: str, stop: list[str], size: int) -> None:
    """Also one of several tokens, and one that is made of what replaces words and numbers."""
    transcript = TRANSCRIPTS[name]
    request = params(stop=stop, parser=parser_request(transcript))
    token_ids = encode(transcript["output"])
    chunks = [token_ids[start : start + size] for start in range(0, len(token_ids), size)]
    redacting = RequestRedactor(redactor(), request, NAMES)

    def find_end(parts: list[list[int]], params: PostprocessParams) -> tuple[int, object]:
        post = Postprocessor(params, tiny_detokenizers(), tiny_parsers())
        for number, part in enumerate(parts):
            for delta in post.feed(Chunk(token_ids=part)):
                if delta.finish_reason:
                    return number, delta.stop_reason
        return -1, None

    number, reason = find_end(chunks, request)
    assert (reason in stop) == any(text in transcript["output"] for text in stop)
    found = find_end(redacting.redact(chunks), redacting.redact_params(request))
    assert found == (number, redacting.kept.stops.get(str(reason)))


def test_deltas_lose_text_and_keep_their_kind() -> None:
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
                ToolCallDelta(1, FunctionDelta("", new), None, "function"),
                ToolCallDelta(2, FunctionDelta("", redacting.kept.letter), None, None),
            ]
        ),
        "stop",
        stop,
    )
    assert redacting.redact_delta(ChoiceDelta(0, Delta("assistant", "secret"))) == (
        ChoiceDelta(0, Delta("assistant", ""))
    )
    reasoning = ChoiceDelta(0, Delta(reasoning_content="secret"))
    assert redacting.redact_delta(reasoning).delta == Delta(reasoning_content="")


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


def test_every_text_is_measured() -> None:
    calls = [ToolCallDelta(0, FunctionDelta("123", "name")), ToolCallDelta(0, FunctionDelta("4"))]
    assert measure_texts(ChoiceDelta(0, Delta("assistant", "12", "345", calls))) == [3, 2, 3, 1]
    assert measure_texts(ChoiceDelta(0, Delta(content="12"))) == [2]
    assert measure_texts(ChoiceDelta(0)) == []


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


SCHEMA = {
    "type": "object",
    "title": "secret",
    "description": "secret",
    "properties": {
        "city": {"type": ["string", "null"], "enum": ["secret"], "nullable": True},
        "days": {"type": "integer", "default": 7, "const": 12},
        "kind": {"type": "secret", "examples": ["secret"]},
        "any": True,
        "a/b": {},
        "name": {},
        "/": {},
    },
    "required": ["city", "secret", 5, "name"],
    "anyOf": [
        *({"$ref": "secret"}, {"$ref": "#/$defs/Part"}, "secret", {"$ref": "#"}),
        *({"$ref": "#secret"}, {"$ref": "#/$defs/Secret"}, {"$ref": "#/title/secret"}),
        *({"$ref": "#/anyOf/1"}, {"$ref": "#/anyOf/99"}, {"$ref": "#/properties/a~1b"}),
        *({"$ref": "#/examples/secret"}, {"$ref": "#/%24defs/Part"}, {"$ref": "#/properties/~1"}),
    ],
    "examples": {"secret": {}},
    "$defs": {"Part": {"type": "string", "pattern": "secret"}},
    "additionalProperties": {"const": {"secret": [1.5, "secret"]}},
}
REDACTED = {
    "type": "object",
    "properties": {
        "N2": {"type": ["string", "null"], "nullable": True},
        "N3": {"type": "integer"},
        "N4": {},
        "N5": True,
        "N6": {},
        "name": {},
        "/": {},
    },
    "anyOf": [
        *({}, {"$ref": "#/$defs/N9"}, {}, {"$ref": "#"}, {}, {}, {}),
        *({"$ref": "#/anyOf/1"}, {}, {"$ref": "#/properties/N6"}, {}),
        *({"$ref": "#/$defs/N9"}, {"$ref": "#/properties/~1"}),
    ],
    "$defs": {"N9": {"type": "string"}},
    "additionalProperties": {"type": "object"},
    "required": ["N2", "name"],
}


def test_names_become_short_ones_everywhere() -> None:
    """But those that the model's formats look for."""
    function = {"name": "zebra", "parameters": SCHEMA, "description": "secret", "strict": True}
    tools: list[Any] = [{"type": "function", "function": function}, {"secret": "secret"}]
    choice = {"type": "function", "function": {"name": "zebra"}}
    request = params(parser=ParserRequest(tools=tools, tool_choice=choice))
    redacting = RequestRedactor(redactor(), request, NAMES)
    named = {"type": "function", "function": {"name": "N1"}}
    assert redacting.redact_params(request).parser == ParserRequest(
        tools=[
            {"type": "function", "function": {"name": "N1", "parameters": REDACTED}},
            {"type": "function"},
        ],
        tool_choice=named,
    )
    text = '{"name": "zebra", "arguments": {"city": "a city", "name": 5, "days": 7, "a/b": 2}}'
    assert shorten(decode(redact(redacting, encode(text)))) == (
        '{"name": "N1", "arguments": {"N2": "x N2", "name": 1, "N3": 1, "N6": 1}}'
    )


def test_what_is_no_schema_is_nothing() -> None:
    assert redact_schema(False, {}) is False
    assert redact_schema("secret", {}) == {}


VALUES = {
    ("enum", ("secret", "other")): "string",
    ("enum", (1, "secret", None, 2.5, True, ())): [
        *("integer", "string", "null", "number", "boolean", "array"),
    ],
    ("const", "secret"): "string",
    ("const", None): "null",
    ("enum", ()): None,
}


@pytest.mark.parametrize(("given", "types"), VALUES.items())
def test_values_become_their_types(given: tuple[str, Any], types: object) -> None:
    keyword, value = given
    found = [list(one) if one == () else one for one in value] if keyword == "enum" else value
    assert redact_schema({keyword: found}, {}) == ({} if types is None else {"type": types})


def test_nothing_is_asked_for_that_names_tokens() -> None:
    request = params(
        logprobs=3,
        return_token_ids=True,
        return_tokens_as_token_ids=True,
        stop=["END"],
        parser=ParserRequest(
            chat_template_kwargs={"thinking": True, "who": "secret", "zebra": 2, NONEMPTY: True},
            tool_choice="secret",
        ),
    )
    redacted = for_request(stop=["END"]).redact_params(request)
    assert redacted == params(
        stop=["N1"],
        parser=ParserRequest(
            chat_template_kwargs={"thinking": True, NONEMPTY: True}, tool_choice="required"
        ),
    )
    assert not redacted.annotates_tokens
