"""Redaction: the structure of an answer stays, and no word of it does."""

from __future__ import annotations

import functools
import re
from typing import Any

import pytest
from backedge.parsers.base import ParserRequest
from backedge.parsers.parser_lookup import reasoning_format, tool_format
from backedge.postprocess import ChoiceDelta
from backedge.postprocess.messages import Delta, FunctionDelta, ToolCallDelta
from backedge.recording.kept_text import declared_names
from backedge.recording.redacted_params import redact_params
from backedge.recording.redaction import Redactor, RequestRedactor
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

ESCAPE = re.compile(r"\\[bfnrtu]|&(?:lt|gt|amp);")
WORD = re.compile(r"[^\W\d_]{2,}")
# One case in so many of each family: enough for all kinds of them, in seconds.
STEP = 40
CONFORMANCE_STEP = 121
WEATHER = next(found for found in TRANSCRIPTS.values() if found.get("tools"))


@functools.cache
def redactor() -> Redactor:
    return Redactor(tiny_detokenizers())


def for_request(**fields: Any) -> RequestRedactor:
    return redactor().for_request(params(**fields), NAMES)


def redact(redacting: RequestRedactor, token_ids: list[int]) -> list[int]:
    """Return the redacted tokens; each was a chunk of its own."""
    return [new for ids in redacting.redact([[one] for one in token_ids]) for new in ids]


def decode(token_ids: list[int]) -> str:
    text: str = tiny_tokenizer().decode(token_ids, skip_special_tokens=False)
    return text


@pytest.mark.parametrize("transcript", TRANSCRIPTS.values(), ids=TRANSCRIPTS)
def test_transcripts_keep_their_structure(transcript: Transcript) -> None:
    request = params(parser=parser_request(transcript), stop=transcript.get("stop", []))
    redacting = redactor().for_request(request, NAMES)
    parsers = tiny_parsers()
    token_ids = encode(transcript["output"])
    assert find_structure(
        redact_params(request),
        tiny_detokenizers(),
        parsers,
        [],
        redact(redacting, token_ids),
    ) == find_structure(request, tiny_detokenizers(), parsers, [], token_ids)


@pytest.mark.parametrize("family", FAMILIES.values(), ids=lambda family: family.name)
def test_every_format_keeps_its_structure(family: Family) -> None:
    tokenizer, names = bpe(family.markers, family.special), build_names(family)
    detokenizers = cached_detokenizers(tokenizer)
    parsers = cached_linear_parsers(names, tokenizer)
    of_model = Redactor(detokenizers)
    for case in family.all_cases()[::STEP]:
        request = params(parser=build_request(case))
        redacting = of_model.for_request(request, names)
        prompt = encode_by(tokenizer, case.prompt)
        token_ids = [*encode_by(tokenizer, case.output), *encode_by(tokenizer, "<|im_end|>")]
        assert find_structure(
            redact_params(request),
            detokenizers,
            parsers,
            [new for ids in redacting.redact([prompt]) for new in ids],
            redact(redacting, token_ids),
            case.finish,
        ) == find_structure(request, detokenizers, parsers, prompt, token_ids, case.finish), case.id


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
        redacting = redactor_of(tokenizer).for_request(request, case.names)
        prompt = encode_by(tokenizer, read_prompt(case))
        output = encode_by(tokenizer, "".join(case.chunks) + "<|im_end|>")
        tail = [new for ids in redacting.redact([prompt]) for new in ids]
        answer = redact(redacting, output)
        assert find_structure(
            redact_params(request), detokenizers, parsers, tail, answer
        ) == find_structure(request, detokenizers, parsers, prompt, output), case.id


@functools.cache
def redactor_of(tokenizer: Any) -> Redactor:
    return Redactor(cached_detokenizers(tokenizer))


def kept_words(request: ParserRequest) -> set[str]:
    texts = [*declared_names(request.tools), "true", "false", "null", "None", "True", "False"]
    texts += ["name", "arguments", "parameters", "function", "id", "tool_call", "think"]
    texts += ["string", "number", "integer", "boolean", "object", "array", "item"]
    return {word for text in texts for word in WORD.findall(text)}


SCRIPTS = st.text(
    st.characters(codec="utf-8", categories=("Lu", "Ll", "Lo", "Lm", "Mn", "Mc", "Nd", "Zs", "Po"))
)


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
    allowed = kept_words(request)
    for word in WORD.findall(ESCAPE.sub(" ", redacted)):
        assert word in allowed or set(word) <= {redacting.letter}, redacted


def test_a_token_that_stays_keeps_its_id_and_its_chunk() -> None:
    text = '<tool_call>\n{"name": "get_weather", "arguments": {"city": null}}\n</tool_call>'
    token_ids = encode(text)
    redacting = for_request(parser=parser_request(WEATHER))
    assert redacting.redact([[one] for one in token_ids]) == [[one] for one in token_ids]


def test_characters_of_several_tokens() -> None:
    redacting = for_request()
    assert decode(redact(redacting, encode("\u6e38\u620f \U0001f44b\U0001f3fd"))) == (
        "xx \U0001f44b\U0001f3fd"
    )
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


def test_a_stop_string_stays_and_arises_nowhere_else() -> None:
    redacting = for_request(stop=["Observation:", "x"])
    redacted = decode(redact(redacting, encode("My plan.\nObservation: six")))
    assert redacting.letter != "x"
    assert redacted.count("Observation:") == 1
    assert redacted.count("x") == 1, "the one of `six`, where the stop string was"


def test_deltas_lose_text_and_keep_their_kind() -> None:
    redacting = for_request(parser=parser_request(WEATHER))
    name = WEATHER["tools"][0]["function"]["name"]
    call = ToolCallDelta(1, FunctionDelta('{"a": 1}', name), "call_secret", "function")
    unknown = ToolCallDelta(2, FunctionDelta("", "secret"), None, None)
    delta = ChoiceDelta(3, Delta(tool_calls=[call, unknown]), "stop", "END", [], [1, 2])
    assert redacting.redact_delta(delta) == ChoiceDelta(
        3,
        Delta(
            tool_calls=[
                ToolCallDelta(1, FunctionDelta("", name), None, "function"),
                ToolCallDelta(2, FunctionDelta("", redacting.letter), None, None),
            ]
        ),
        "stop",
        "END",
    )
    assert redacting.redact_delta(ChoiceDelta(0, Delta("assistant", "secret"))) == (
        ChoiceDelta(0, Delta("assistant", ""))
    )
    reasoning = ChoiceDelta(0, Delta(reasoning_content="secret"))
    assert redacting.redact_delta(reasoning).delta == Delta(reasoning_content="")
