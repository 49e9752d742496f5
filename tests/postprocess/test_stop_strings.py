"""Stop strings where reasoning ends: the text after the marker in its token is checked, too."""

import pytest
from backedge.parsers.events import Content, Reasoning

from tests.support import chunks, encode, params, run


class Parsers:
    name = "ends reasoning in its last token"
    breaks_before_calls: int | None = None

    def __init__(self, content):
        self.content = content

    def shows_special_tokens(self, request):
        return False

    def __call__(self, request, prompt_token_ids):
        return Parser(self.content)


class Parser:
    token_aligned, in_reasoning, reasoning_tokens, dropped_calls, held = True, True, 0, 0, None

    def __init__(self, content):
        self.content = content

    def reads_together(self, token_ids):
        return len(token_ids) == 1

    def feed(self, text, token_ids=()):
        return [Reasoning(text)]

    def finish(self, text="", token_ids=(), *, cut=False):
        self.in_reasoning = False
        return [Reasoning(text), Content(self.content)]


@pytest.mark.parametrize(
    ("content", "shown", "reason", "stopped_by"),
    [
        ("before END behind", "before ", "stop", "END"),
        ("before EN", "before EN", "length", None),
        ("nothing", "nothing", "length", None),
    ],
)
def test_content_of_the_token_that_ends_all(content, shown, reason, stopped_by):
    whole = run(
        params(stop=["END"]), chunks(encode("x y"), finish_reason="length"), Parsers(content)
    )
    assert (whole.delta.reasoning_content, whole.delta.content) == ("x y", shown)
    assert (whole.finish_reason, whole.stop_reason) == (reason, stopped_by)
