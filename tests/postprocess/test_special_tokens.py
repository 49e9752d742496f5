"""Special tokens that the parser passes on as content are hidden; markers in calls are not."""

import pytest
from backedge.parsers.base import ParserRequest
from backedge.parsers.events import Content, Reasoning, ToolCallArguments
from backedge.postprocess.fallback import FallbackParser
from backedge.postprocess.special_tokens import SpecialTokenHider

SPECIAL = 7


class Scripted:
    token_aligned, in_reasoning, reasoning_tokens, dropped_calls, held = True, False, 0, 0, None

    def __init__(self, events):
        self.events = events

    def reads_together(self, token_ids):
        return False

    def feed(self, text, token_ids=()):
        return list(self.events)

    def finish(self, text="", token_ids=(), *, cut=False):
        return list(self.events)


class Parsers:
    name = "scripted"
    breaks_before_calls: int | None = None

    def __init__(self, events):
        self.events = events

    def shows_special_tokens(self, request):
        return True

    def __call__(self, request, prompt_token_ids):
        return Scripted(self.events)


CASES = [
    ([Content("<end>")], SPECIAL, []),
    ([Content("held<end>")], SPECIAL, [Content("held")]),
    ([Reasoning("<end>")], SPECIAL, [Reasoning("<end>")]),
    ([ToolCallArguments(0, "<end>")], SPECIAL, [ToolCallArguments(0, "<end>")]),
    ([Content("<end>")], 8, [Content("<end>")]),
    ([], SPECIAL, []),
]


@pytest.mark.parametrize("method", ["feed", "finish"])
@pytest.mark.parametrize(("events", "token_id", "shown"), CASES)
def test_hidden(events, token_id, shown, method):
    def report(failure):
        raise failure

    parser = FallbackParser(Parsers(events), ParserRequest(), (), "r", "degrade", report)
    hider = SpecialTokenHider(parser, lambda token: token == SPECIAL)
    assert getattr(hider, method)("<end>", (token_id,)) == shown
    assert hider.finish() == events  # without a token nothing is hidden
