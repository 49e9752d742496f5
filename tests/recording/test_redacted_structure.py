"""Redacted answers keep their structure."""

from __future__ import annotations

import functools
from typing import Any

import pytest
from backedge.parsers.parser_lookup import reasoning_format, tool_format
from backedge.postprocess import Chunk, Postprocessor, PostprocessParams
from backedge.recording.redaction import (
    Redactor,
    RequestRedactor,
)

from benchmarks.samples.tokenizers import bpe
from benchmarks.samples.tokenizers import encode as encode_by
from tests.conformance.cases import Case, load_cases
from tests.conformance.runner import build_request as conformance_request
from tests.conformance.runner import read_prompt
from tests.parsers.families import FAMILIES
from tests.parsers.families.family import Family
from tests.parsers.sample_model import cached_detokenizers, cached_linear_parsers
from tests.parsers.test_families import build_request
from tests.recording.redacting import (
    decode,
    find_structure,
    for_request,
    redact,
    redactor,
    shorten,
)
from tests.support import (
    NAMES,
    TRANSCRIPTS,
    Transcript,
    encode,
    params,
    parser_request,
    tiny_detokenizers,
    tiny_parsers,
)

# One case in so many of each family: enough for all kinds of them, in seconds.
STEP = 40
CONFORMANCE_STEP = 121


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
    tokenizer, names = bpe(family.markers, family.special), family.names
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
