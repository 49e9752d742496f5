"""How deep JSON is nested, and JSON in strings: as json reads it, but for deep nesting."""

import ast
import json
import re

import msgspec
import pytest
from backedge.base.json_types import (
    NestingError,
    check_nesting,
    decode_json,
    encode_line,
    is_deeper,
    measure_nesting,
)
from hypothesis import given
from hypothesis import strategies as st

from tests.test_house import SOURCES, relative


@pytest.mark.parametrize(
    ("value", "depth"), [(1, 0), ("[[[", 0), ([], 1), ({}, 1), ([[1], {"a": [2]}], 3)]
)
def test_the_depth_of_a_value(value, depth):
    assert not is_deeper(value, depth)
    assert depth == 0 or is_deeper(value, depth - 1)
    assert not is_deeper(value, 128)


LEVELS = 128
GOOD = ["{}", "[1, 2]", '{"a": {"b": [null]}}', '"x"', "[" * LEVELS + "]" * LEVELS, "[[],[],{}]"]
GOOD += ["-1.5e3", "9" * 4300, r'"\ud83d"']


@pytest.mark.parametrize("text", GOOD)
def test_good_text(text):
    for is_finite in (True, False):
        assert decode_json(text, LEVELS, is_finite=is_finite) == json.loads(text)


@pytest.mark.parametrize(
    "text",
    [
        *("", "{", "no json", "NaN", "[-Infinity]", "[" * 100_000),
        *("[" * (LEVELS + 1) + "]" * (LEVELS + 1), '{"a":' * 500 + "1" + "}" * 500),
    ],
)
def test_bad_text(text):
    with pytest.raises(ValueError, match=r"."):
        decode_json(text, LEVELS)


@pytest.mark.parametrize("text", ["1e999", "-1e999", "9" * 4301, "-" + "9" * 5000])
def test_a_number_is_infinite_or_refused(text):
    assert decode_json(text) == float(text)
    with pytest.raises(ValueError, match=r"."):
        decode_json(text, is_finite=True)


def test_many_brackets_beside_each_other_are_not_deep():
    assert decode_json(json.dumps([[[]]] * 1000)) == [[[]]] * 1000


LINE_ENDS = [char for char in map(chr, range(0x3000)) if len(f"a{char}b".splitlines()) > 1]


@pytest.mark.parametrize("char", LINE_ENDS, ids=ascii)
def test_a_line_is_one_for_every_reader(char):
    value = {f"k{char}": [f"a{char}b", "\xc2\x84 \u2027\u202a"]}
    [line] = encode_line(value).decode().splitlines()
    assert json.loads(line) == value


JSON = st.recursive(
    st.none() | st.text('[]{}"\\\\a\ud800', max_size=4),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text("[}"), inner, max_size=2),
)


@given(JSON, st.booleans())
def test_the_depth_of_a_text_is_that_of_its_value(value, ascii_only):
    text = json.dumps(value, ensure_ascii=ascii_only)
    deepest, left_open = measure_nesting(text)
    assert left_open == 0
    assert not is_deeper(value, deepest)
    assert deepest == 0 or is_deeper(value, deepest - 1)


@given(st.text('[]{}"\\\\:,a1 ', max_size=30), st.integers(0, 4))
def test_a_decoder_never_goes_deeper_than_was_checked(text, levels):
    try:
        value = json.loads(check_nesting(text, levels))
    except ValueError:
        return
    assert not is_deeper(value, levels)


@pytest.mark.parametrize("count", [513, 9_000, 100_000])
@pytest.mark.parametrize("mark", ["[", '{"[":', "[[], "])
@pytest.mark.parametrize("kind", [str, str.encode])
def test_deep_text_is_refused_by_what_a_decoder_raises(count, mark, kind):
    for error in (NestingError, ValueError, msgspec.DecodeError):
        with pytest.raises(error, match="more than 512 levels"):
            check_nesting(kind(mark * count))


DECODE = re.compile(r"\bjson\.(?:loads|decode)\(|\bjson\.Decoder\(|\braw_decode\(")
# Modules that decode text which is ours, or whose depth has another bound.
OTHER_BOUNDS = {
    "engines/transformers/parsers.py": "a description that was read; values that were decoded",
    "parsers/argument_grammar.py": "schemas that were decoded",
    "parsers/arguments/json_calls.py": "a keyword or number",
    "parsers/arguments/json_in_string.py": "a string",
    "parsers/arguments/type_conversion.py": "what it has written",
    "parsers/arguments/typed_json.py": "a string",
    "parsers/detection.py": "what our parsers give of our own probe",
    "parsers/json_rest.py": "parts of a text whose depth was read",
    "parsers/partial_json.py": "a key",
    "templates/auto_parsers.py": "tokenizer files; tokenizers takes 128 levels, and they are large",
    "templates/render_process.py": "variables, whose depth was checked",
    "testing/transcripts.py": "transcripts of this package",
    "tokenization/cut_points.py": "what tokenizers writes of a file, whose bound is its own",
    "tokenization/detokenizer/vocabulary.py": "as above",
    "worker/llm_engine.py": "what Backedge has put on a card",
    "worker/pool/fork_server.py": "lines of Backedge's own process",
    "worker/pool/fork_server_main.py": "as above",
}
# Handlers of what is no text: a peer's protocol, a Python program's values, MessagePack.
HANDLERS = {
    "frontend/turns/shared_turns.py",
    "templates/rendering.py",
    "worker/pool/messages.py",
}


def test_the_depth_of_text_is_checked_before_a_decoder_runs():
    texts = {relative(path): path.read_text(encoding="utf-8") for path in SOURCES}
    decoding = {name for name, text in texts.items() if DECODE.search(text)}
    checking = {name for name, text in texts.items() if "check_nesting(" in text}
    assert decoding - checking == OTHER_BOUNDS.keys()


def test_pythons_own_limit_decides_nothing():
    handlers = {
        relative(path)
        for path in SOURCES
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Name) and node.id == "RecursionError"
    }
    assert handlers == HANDLERS
