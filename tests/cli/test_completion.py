"""The shell completes the names of parsers."""

import pytest
from backedge.cli.main import main
from backedge.parsers.formats.catalog import FORMATS
from click.shell_completion import ShellComplete

# words before, the beginning of the last one, some of its completions
WORDS = [
    (["parse", "--format"], "herm", {"hermes"}),
    (["parse", "--reasoning"], "qwen", {"qwen3"}),
    (["replay", "f", "--tool-call-parser"], "glm", {"glm45", "glm47"}),
    (["replay", "f", "--reasoning-parser"], "zzz", set()),
]


@pytest.mark.parametrize(("words", "incomplete", "some"), WORDS)
def test_names_of_parsers_are_completed(words, incomplete, some):
    completion = ShellComplete(main, {}, "backedge", "_BACKEDGE_COMPLETE")
    found = {item.value for item in completion.get_completions(words, incomplete)}
    assert some <= found
    assert all(name.startswith(incomplete) for name in found)
    everything = completion.get_completions(["parse", "--format"], "")
    assert len(everything) >= sum(format_.parses_tools for format_ in FORMATS)
