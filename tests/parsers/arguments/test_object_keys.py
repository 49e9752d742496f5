"""A known key is read without its colon or its second quote, however it is cut."""

from __future__ import annotations

import pytest
from backedge.parsers.arguments.object_keys import read_key

KNOWN = {"path", "n"}.__contains__
PLAIN = ['"path": 1,', '"path" :1', '"path":"x"']
MENDED = ['"path: "x"', '"path: 1}', '"path:"x"', '"path" "x"', '"path" {"a"', '"path" 5}',
          '"path" true,']  # fmt: skip
# JSON, whatever is known: the string goes on to its own end.
WHOLE = [
    '"path: ": 5',
    '"path:": 5',
    '"path:" : 5',
    '"path: \\": 1": 5',
    '"path: 1, "  :5',
    '"path: ' + "x" * 200,
]
OTHER = [
    "path: 1,",
    'path": 1,',
    '""path": 1,',
    '"path"": 1,',
    "'path': 1,",
    '"other": 1,',
    '"other" "x"',
    '"path", "n"',
    '"path"}',
    '"path"""x"',
    '"path" word}',
    "\"path': 1,",
    '"' + "k" * 200 + '": 1,',
]


@pytest.mark.parametrize("text", PLAIN + MENDED)
def test_a_known_key_is_read(text: str) -> None:
    found = read_key(text, 0, KNOWN, final=True)
    assert found is not None
    key, end, is_plain = found
    assert key == "path"
    assert is_plain == (text in PLAIN)
    assert text[end:].lstrip() in {"1", "1,", '"x"', '{"a"', "1}", "5}", "true,"}


@pytest.mark.parametrize("text", OTHER + WHOLE)
def test_other_text_is_left(text: str) -> None:
    assert read_key(text, 0, KNOWN, final=False) is None


@pytest.mark.parametrize("text", [*PLAIN, *MENDED, *OTHER, *WHOLE])
def test_a_beginning_waits_or_is_read_alike(text: str) -> None:
    whole = read_key(text, 0, KNOWN, final=False)
    for end in range(len(text)):
        part = read_key(text[:end], 0, KNOWN, final=False)
        assert part == whole or (part is not None and part[:2] == ("", 0))
