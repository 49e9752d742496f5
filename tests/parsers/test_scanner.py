"""The search for markers in text."""

from __future__ import annotations

from backedge.parsers.scanner import Scanner
from hypothesis import given
from hypothesis import strategies as st

MARKERS = st.lists(st.text("<>/cals`", min_size=1, max_size=6), min_size=1, max_size=4)


@given(MARKERS, st.text(st.sampled_from("<>/cals`"), max_size=12))
def test_a_scanner_finds_a_marker_or_holds_its_beginning(markers: list[str], text: str) -> None:
    scanner = Scanner(markers)
    beginnings = [
        text.endswith(marker[:length]) for marker in markers for length in range(1, len(marker))
    ]
    found = scanner.running.search(text)
    assert (found is not None) == (any(beginnings) or any(marker in text for marker in markers))
    final = scanner.final.search(text)
    assert (final is not None) == any(marker in text for marker in markers)


def test_the_longest_marker_wins() -> None:
    found = Scanner(["<a", "<a>"]).final.search("x<a>")
    assert found is not None
    assert found.group() == "<a>"
