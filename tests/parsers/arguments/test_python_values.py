"""Python's literals become the JSON of what `ast.literal_eval` reads, however they are spelled."""

from __future__ import annotations

import ast
import json
import time
from collections.abc import Collection
from typing import Any

import pytest
from backedge.base.limits import MAX_NUMBER, MAX_UNDECIDED_BRACKET
from backedge.parsers.arguments.python_values import PythonValue
from backedge.parsers.arguments.python_words import begins_literal
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.parsers.arguments.reading import read_through, read_value

cuts = st.sets(st.integers(1, 120), max_size=20)
# More than a word, an escape sequence, or what is looked at behind a quote.
MAX_HELD = 300
NUMBER = "9" * 4000


def read(text: str, cuts: Collection[int] = (), keywords: Collection[str] = ()) -> str:
    """Return the JSON of the argument that begins `text`, fed in pieces."""
    out: list[str] = []
    value = PythonValue(out.append, keywords)
    return read_value(value, out, text, cuts, MAX_NUMBER if NUMBER in text else MAX_HELD)


# The oracle: constants as Python reads them, and what we make of the types that JSON lacks.


def as_json(node: ast.expr) -> Any:
    match node:
        case ast.Constant(bytes() as value):
            return value.decode("latin-1")
        case ast.Constant(value):
            return join_surrogates(value)
        case ast.List(elements) | ast.Tuple(elements) | ast.Set(elements):
            return [as_json(element) for element in elements]
        case ast.Dict(keys, values):
            return {
                json.loads(json.dumps({as_json(key): 0})).popitem()[0]: as_json(value)
                for key, value in zip(keys, values, strict=True)
                if key is not None
            }
    return ast.literal_eval(node)


def join_surrogates(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    return value.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")


# Source in varied spellings.

ESCAPES = (
    r"\\", r"\'", r"\"", r"\a", r"\b", r"\f", r"\n", r"\r", r"\t", r"\v", r"\/", r"\d", r"\8",
    r"\0", r"\7", r"\12", r"\101", r"\377", r"\x41", r"\xff", "\\\n", "\\\r\n",
)  # fmt: skip
TEXT_ESCAPES = (
    r"\u00e9", r"\ud83d\ude00", r"\U0001F600", r"\N{EURO SIGN}", r"\N{LATIN SMALL LETTER SHARP S}"
)  # fmt: skip
QUOTES = ("'", '"', "'''", '"""')
SPACE = st.sampled_from(("", " ", "\n", " \t"))


@st.composite
def string(draw: st.DrawFn, *, in_bytes: bool) -> str:
    """Return one string literal."""
    quote = draw(st.sampled_from(QUOTES))
    raw = draw(st.booleans())
    prefix = draw(st.sampled_from(["", *(["u", "U"] if not (raw or in_bytes) else [])]))
    if in_bytes:
        prefix = draw(st.sampled_from("bB"))
    if raw:
        prefix = "".join(draw(st.permutations([*prefix, draw(st.sampled_from("rR"))])))
    escapes = list(ESCAPES if in_bytes or raw else ESCAPES + TEXT_ESCAPES)
    if raw:
        escapes = [escape for escape in escapes if not escape.endswith("\n")]
    letters = "ab01 ,=:#{}[]()'\"" + ("" if in_bytes else "é你😀")
    if len(quote) > 1:
        letters += "\n"  # Python reads a raw CR as LF; it is kept here
    pieces = draw(st.lists(st.sampled_from([*escapes, *letters]), max_size=8))
    inside = [
        "" if piece == quote[0] and (len(quote) == 1 or number > len(pieces) - 4) else piece
        for number, piece in enumerate(pieces)
    ]
    text = "".join(inside).replace(quote[0] * 3, "")
    return prefix + quote + text + quote


@st.composite
def strings(draw: st.DrawFn) -> str:
    """Return string literals next to each other, which are one string."""
    literals = draw(st.lists(string(in_bytes=draw(st.booleans())), min_size=1, max_size=3))
    return draw(SPACE).replace("\n", " ").join(literals)


words = st.sampled_from(
    ["True", "False", "None", "0", "-7", "+7", "1_000", "0x1F", "0o17", "0b11", "1.5", ".5", "1.",
     "1e5", "-2.5E-3"]
)  # fmt: skip
keys = strings() | st.sampled_from(["1", "-2", "0x1F", "True", "None"])


@st.composite
def collection(draw: st.DrawFn, inner: st.SearchStrategy[str]) -> str:
    kind = draw(st.sampled_from(["[]", "()", "{}", "dict"]))
    opener, closer = ("{", "}") if kind == "dict" else (kind[0], kind[1])
    separator = draw(SPACE) + "," + draw(SPACE)
    items = draw(st.lists(inner, max_size=3))
    if kind == "dict":
        colon = draw(SPACE) + ":" + draw(SPACE)
        items = [draw(keys) + colon + item for item in items]
    trailing = draw(st.sampled_from(["", ","])) if items else ""
    return opener + draw(SPACE) + separator.join(items) + trailing + draw(SPACE) + closer


literals = st.recursive(strings() | words, collection, max_leaves=8)


def is_valid(source: str) -> bool:
    try:
        ast.parse(source, mode="eval")
    except (SyntaxError, ValueError):
        return False
    return True


@pytest.mark.filterwarnings("ignore::SyntaxWarning", "ignore::DeprecationWarning")
@settings(deadline=None)
@given(
    source=literals.filter(is_valid), behind=st.sampled_from([")", ", b=1)", " ,\n)"]), cuts=cuts
)
def test_literals_are_read_as_python_reads_them(source: str, behind: str, cuts: set[int]) -> None:
    expected = as_json(ast.parse(source, mode="eval").body)
    assert begins_literal(source + behind, 0, final=True)
    for pieces in ((), cuts, range(len(source + behind))):
        assert json.loads(read(source + behind, pieces)) == expected


# Arguments that are hardly Python, or none, and the example of each kind of source.
EXAMPLES = [
    ("'sed -n '360,450p' f')", "sed -n '360,450p' f"),
    ("'echo 'hi'')", "echo 'hi'"),
    ("'it's', other='x')", "it's"),
    ("'say 'a', b='c' now', other='x')", "say 'a', b='c' now"),
    ("['it's', 'b'])", ["it's", "b"]),
    ("{'k': 'it's', 'l': 1})", {"k": "it's", "l": 1}),
    ("'a', unknown=1)", "a"),
    ("'a' other='x')", "a"),
    ("'a', )", "a"),
    ("'a'", "a"),
    ("'a']", "a"),
    (f"'a'{' ' * 300})", "a"),
    (f"'a' {'b' * 300}')", f"a' {'b' * 300}"),
    ("name)", "name"),
    ("x + f(1, ')') , b=1)", "x + f(1, ')')"),
    ("f'{x}')", "f'{x}'"),
    ("rf'{x}', b=1)", "rf'{x}'"),
    ("1 if x else 2)", "1 if x else 2"),
    ("1 + 2j)", "1 + 2j"),
    ("a[1:2])", "a[1:2]"),
    ("lambda: 0)", "lambda: 0"),
    ("[x, {'a': y.z(1)}, 2])", ["x", {"a": "y.z(1)"}, 2]),
    (r"'\N{NO SUCH NAME}\x4\u12')", r"\N{NO SUCH NAME}\x4\u12"),
    (r"'\N{KEYCAP NUMBER SIGN}\U00110000')", r"\N{KEYCAP NUMBER SIGN}\U00110000"),
    (r"'\ud800')", "\ud800"),
    ("{(1, 2): 3})", [[1, 2], 3]),
    (f"{{'{'k' * MAX_UNDECIDED_BRACKET}', 1}})", ["k" * MAX_UNDECIDED_BRACKET, 1]),
    (f"('{'k' * MAX_UNDECIDED_BRACKET}'))", ["k" * MAX_UNDECIDED_BRACKET]),
    ("('a", ["a"]),
    ("{'a", ["a"]),
    ("{'a': ('b", {"a": ["b"]}),
    ("[1, f(2", [1, "f(2"]),
    ("'a\\", "a\\"),
    ("r'a\\", "a\\"),
    ("'''a''", "a''"),
    ("''", ""),
    ("007)", 7),
    (f"[{NUMBER}, -{NUMBER}])", [int(NUMBER), -int(NUMBER)]),
    (f"{NUMBER}{NUMBER})", NUMBER + NUMBER),
]


@pytest.mark.parametrize(("source", "value"), EXAMPLES, ids=lambda text: str(text)[:40])
@settings(deadline=None, max_examples=20)
@given(cuts=cuts)
def test_an_argument_is_read(source: str, value: object, cuts: set[int]) -> None:
    assert json.loads(read(source, cuts, ["other"])) == value


@settings(deadline=None)
@given(
    text=st.text("'\"\\{}[](),=:fbr1 \n+<", max_size=40),
    start=st.sampled_from("'\"({[1"),
    cuts=cuts,
)
def test_any_text_becomes_json_however_it_is_cut(text: str, start: str, cuts: set[int]) -> None:
    whole = read(start + text)
    json.loads(whole)
    assert read(start + text, cuts) == whole
    assert read(start + text, range(len(text) + 1)) == whole


@pytest.mark.parametrize("unit", ["'", "' ", "(", "{", "x(", "\\", "1 ", "', b", '"', "'a' "])
def test_the_time_is_linear(unit: str) -> None:
    def measure(count: int) -> float:
        text = "['" + unit * count
        value = PythonValue(lambda _: None)
        start = time.process_time()
        held = ""
        for position in range(0, len(text), 7):
            held = read_through(value, held + text[position : position + 7])
        return time.process_time() - start

    assert min(measure(20000) for _ in range(3)) <= 12 * min(measure(5000) for _ in range(3))
