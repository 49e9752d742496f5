"""Brackets balance where a JSON parser says that a value ends."""

import json

from backedge.offline.plugins.json_plugins import JsonScanner
from hypothesis import given
from hypothesis import strategies as st

SCALARS = st.none() | st.booleans() | st.integers() | st.text('{}[]"\\a \u00fc', max_size=6)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text('{"]a'), inner, max_size=4),
    max_leaves=20,
).filter(lambda value: isinstance(value, list | dict))


def ends(text):
    scanner = JsonScanner()
    return [position for position, char in enumerate(text, 1) if scanner.feed(char)]


@given(st.lists(VALUES, min_size=1, max_size=3), st.booleans())
def test_values_end_where_they_end(values, ascii_only):
    texts = [json.dumps(value, ensure_ascii=ascii_only) for value in values]
    expected = [
        sum(len(text) + 1 for text in texts[:count]) + len(texts[count])
        for count in range(len(texts))
    ]
    assert ends(" ".join(texts)) == expected


def test_what_is_no_json_is_left_behind():
    assert ends('a (see "x) [1} {"b": "}"} c') == [len('a (see "x) [1} {"b": "}"}')]
    assert ends('{"never": "ends') == []
