"""A known key is read with one delimiter too many or too few, however it is cut."""

from __future__ import annotations

import pytest
from backedge.parsers.arguments.object_keys import lacks_brace, read_key, skip_doubled_quote

KNOWN = {"path", "n"}.__contains__
PLAIN = ['"path": 1,', '"path" :1', '"path":"x"']
MENDED = [
    'path": 1,',
    '""path": 1,',
    '"path"": 1,',
    '"path: "x"',
    '"path: 1}',
    '"path:"x"',
    '"path" "x"',
    '"path" {"a"',
    '"path" 5}',
    '"path" true,',
    "'path': 1,",
]
# JSON, whatever is known: the string goes on to its own end.
WHOLE = [
    '"path: ": 5',
    '"path:": 5',
    '"path:" : 5',
    '"path: \\": 1": 5',
    '"path: 1, "  :5',
    '"path: ' + "x" * 200,
]
# The value begins after the key's own quote.
MOVED = ['"path:" "x"', '"path:" 5}', '"path:"{"a"']
OTHER = [
    "path: 1,",
    '"other": 1,',
    '"other" "x"',
    '"path", "n"',
    '"path"}',
    '"path" "" "x"'.replace(' "" ', '""'),
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


@pytest.mark.parametrize("text", MOVED)
def test_a_quote_behind_the_colon_is_the_keys_own(text: str) -> None:
    found = read_key(text, 0, KNOWN, final=False)
    assert found is not None
    assert text[found[1] :].lstrip() in {'"x"', "5}", '{"a"'}


@pytest.mark.parametrize("text", OTHER + WHOLE)
def test_other_text_is_left(text: str) -> None:
    assert read_key(text, 0, KNOWN, final=False) is None


@pytest.mark.parametrize("text", [*PLAIN, *MENDED, *MOVED, *OTHER, *WHOLE])
def test_a_beginning_waits_or_is_read_alike(text: str) -> None:
    whole = read_key(text, 0, KNOWN, final=False)
    for end in range(len(text)):
        part = read_key(text[:end], 0, KNOWN, final=False)
        assert part == whole or (part is not None and part[:2] == ("", 0))


@pytest.mark.parametrize(
    ("text", "start"),
    [
        ('"path": 1,', 0),
        ('path": 1,', 0),
        ('"{path": 1,', 2),
        ('"', -1),
        ('"{', -1),
        ('"pa', -1),
        ('"{"path": 1,', None),
        ('"{\\"path\\": 1,', None),
        ('"other": 1,', None),
        ("text", -1),
    ],
)
def test_members_without_a_brace(text: str, start: int | None) -> None:
    assert lacks_brace(text, 0, KNOWN, final=False) == start


@pytest.mark.parametrize(
    ("text", "end"), [('",', 1), ('" }', 1), ('"', 0), ('" ', 0), ('"x', None), (',"', None)]
)
def test_a_doubled_quote(text: str, end: int | None) -> None:
    assert skip_doubled_quote(text, 0, final=False) == end


def test_at_the_end_a_quote_is_one_too_many() -> None:
    assert skip_doubled_quote('"', 0, final=True) == 1
