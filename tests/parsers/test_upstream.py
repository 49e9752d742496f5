"""docs/upstream/ says what a run gives."""

from __future__ import annotations

from tests.parsers.upstream import FOLDER, pages


def test_the_pages_are_of_this_run():
    for path, text in pages().items():
        assert path.read_text(encoding="utf-8") == text, (
            "run: python -m tests.parsers.upstream --write"
        )
    assert {path.name for path in FOLDER.iterdir()} == {path.name for path in pages()}
