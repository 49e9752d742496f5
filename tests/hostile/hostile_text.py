"""What a hostile model writes, and what is asked of an answer to it."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Sequence

import msgspec
from backedge.postprocess.messages import ChoiceDelta, PostprocessedChunk, encode, read
from hypothesis import strategies as st

from tests.hostile.campaign import WHOLE

# How long a run of one thing is. An engine's own parsers may take the square of it.
LONG = 10_000 if WHOLE else 3_000
LONG_NATIVE = 400 if WHOLE else 150

# Pieces that are hostile as they are.
SHORT = (
    *(r"\ud83d", r"\ude00", r"\ud83d\ud83d\ude00", r'"\ud83d"', r'{"\ude00": "\ud83d"}', r"\u"),
    *("\x00", r"\u0000", "\ufeff", "\u202e\u2066", "\ufffd", "\u2028\u2029", "\x7f\x85\xa0"),
    "".join(map(chr, range(32))),
    *("1e999", "-1e-999", "NaN", "-Infinity", "0x" + "f" * 300, "1_0", "-", "- 1", "00", "1e", "."),
    *('"', "'", '"""', "'''", "\\", '\\"', '"\\', "{", "[", "(", "<", "</", "```", "\\x", "\\N{"),
    *("\\N{" + "A" * 300 + "}", "\\U00110000", "\\777", "\\x8", "eval(1)", "__import__('os')"),
    *('{"a": {"a": ', '"a": 1, "a": 2, ', "null", "{}", "[]", "\r\n\t ", "é́" * 9, "👩‍👩‍👧‍👦", "𝔘"),
)


def build_runs(length: int) -> list[str]:
    """Return pieces that are hostile by their length."""
    return [
        *("9" * length, "-" * length, "0." + "0" * length, "1e" + "9" * length),
        *(opener * length for opener in ("[", "{", "(", '{"a":', "[[{(", "<a>", "</", "<|")),
        *(closer * length for closer in ("]", "}", ")", '"', "'", "\\", "`", "'''", '"""')),
        *(space * length for space in (" ", "\n", "\t", "\u2003", "\u200b")),
        *('"' + "x" * length, "{" + ", " * length, r"\ud83d" * length, "\ufffd" * length),
    ]


def draw_output(
    outputs: Sequence[str], markers: Sequence[str], length: int
) -> st.SearchStrategy[str]:
    """Return outputs in whose midst, or in whose place, something hostile stands.

    outputs: what an honest model writes. markers: of its format.
    """
    marker = st.sampled_from(list(markers) or ["<think>"])
    piece = (
        st.sampled_from(SHORT)
        | marker
        | st.builds(lambda one, count: one * count, marker, st.integers(2, 40))
        | st.text(max_size=8)
    )
    run = st.sampled_from(build_runs(length))
    soup = st.lists(piece, max_size=12).map("".join)
    hostile = st.builds(lambda *parts: "".join(parts), soup, st.just("") | run, soup)
    if not outputs:
        return hostile
    return hostile | st.builds(
        lambda text, start, new, removed: text[:start] + new + text[start + removed :],
        st.sampled_from(list(outputs)),
        st.integers(0, 300),
        hostile,
        st.integers(0, 20),
    )


def check_deltas(deltas: Sequence[ChoiceDelta]) -> None:
    """Check that `deltas` travel, end once, and are well-formed for a strict client."""
    text = encode(PostprocessedChunk(deltas=list(deltas)))
    again = read(PostprocessedChunk, text.encode().decode())
    assert again is not None
    assert again.deltas == list(deltas)
    finishes = [delta.finish_reason for delta in deltas if delta.finish_reason]
    assert len(finishes) == 1
    assert deltas[-1].finish_reason
    arguments: dict[int, str] = {}
    for delta in deltas:
        for call in delta.delta.tool_calls:
            arguments.setdefault(call.index, "")
            arguments[call.index] += call.function.arguments
    for whole in arguments.values():
        check_strict(whole)


def check_strict(arguments: str) -> None:
    """Check that what JSON readers take, strict ones take as well."""
    try:
        # JSON has neither NaN nor Infinity, which Python reads.
        json.loads(arguments, parse_constant=refuse)
    except (ValueError, RecursionError):
        return  # cut, or raw
    with contextlib.suppress(RecursionError):
        msgspec.json.decode(arguments)


def refuse(constant: str) -> None:
    raise ValueError(constant)
