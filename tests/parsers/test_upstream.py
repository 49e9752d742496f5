"""docs/upstream/ says what a run gives."""

from __future__ import annotations

from tests.parsers.upstream import FOLDER, pages

# Not about parsers.
WRITTEN_BY_HAND = {"dynamo.md", "vllm-serving.md"}


def test_the_pages_are_of_this_run():
    for path, text in pages().items():
        assert path.read_text(encoding="utf-8") == text, (
            "run: python -m tests.parsers.upstream --write"
        )
    reports = {path.name for path in FOLDER.iterdir()} - WRITTEN_BY_HAND
    assert reports == {path.name for path in pages()}
