"""A parser that raises, at any point: nothing that the model wrote is lost."""

import pytest
from backedge.base.errors import ParserFailedError
from backedge.parsers.base import ParserRequest
from backedge.parsers.events import Content, Reasoning, join
from backedge.postprocess import fallback
from backedge.postprocess.fallback import FallbackParser
from hypothesis import given
from hypothesis import strategies as st


class Parser:
    """Holds back what begins with "_", and the end of a text after "<"; raises at "!"."""

    token_aligned, in_reasoning, reasoning_tokens, dropped_calls, held = True, True, 3, 0, None

    def __init__(self):
        self.kept = ""

    def reads_together(self, token_ids):
        return False

    def feed(self, text, token_ids=()):
        if text == "!":
            raise ValueError("broken")
        self.kept += text
        if text.startswith("_"):
            return []
        text, begun, rest = self.kept.partition("<")
        self.kept = begun + rest
        return [Content(text)] if text else []

    def finish(self, text="", token_ids=(), *, cut=False):
        if text == "?":
            raise IndexError(text)
        return [*self.feed(text, token_ids), Reasoning("end")]


class Parsers:
    name = "mine"
    breaks_before_calls: int | None = None

    def __init__(self, *, builds=True):
        self.builds = builds

    def shows_special_tokens(self, request):
        return False

    def __call__(self, request, prompt_token_ids):
        if not self.builds:
            raise KeyError("tokenizer")
        return Parser()


def build_fallback(on_error="degrade", **options):
    failures: list[ParserFailedError] = []
    parser = FallbackParser(Parsers(**options), ParserRequest(), (), "r", on_error, failures.append)
    return parser, failures


@given(
    st.lists(st.sampled_from(["a", "_b", "c<d", "", "!"]), max_size=8),
    st.sampled_from(["", "e", "?"]),
)
def test_no_text_is_lost(texts, last):
    parser, failures = build_fallback()
    events = [event for text in texts for event in parser.feed(text, (1,))]
    events += parser.finish(last, (1,))
    read = "".join(event.text for event in events if isinstance(event, Content))
    fails = "!" in texts or last == "?"
    expected = "".join(texts) + last
    if not fails:
        # What the parser holds back to its end is the parser's own affair.
        assert expected.startswith(read)
    else:
        assert read == expected
    assert len(failures) == fails
    assert parser.failed == fails


def test_the_failure_says_where_and_why():
    parser, failures = build_fallback()
    parser.feed("a", (1, 2))
    parser.feed("_b", (3,))
    assert join(parser.feed("!", (4,))) == [Content("_b!")]
    assert str(failures[0]) == (
        "parser 'mine' failed on request r at output token 4: ValueError: broken"
    )
    assert (parser.in_reasoning, parser.reads_together([1, 2])) == (False, True)


@pytest.mark.parametrize(
    "step",
    [
        lambda parser: parser.feed("!", (1,)),
        lambda parser: parser.finish("!", (1,)),
        lambda parser: parser.degrade(TimeoutError()),
        lambda _: build_fallback("fail", builds=False),
    ],
    ids=["feed", "finish", "degrade", "build"],
)
def test_fail_raises_instead(step):
    parser, _ = build_fallback("fail")
    with pytest.raises(ParserFailedError, match="parser 'mine' failed on request r"):
        step(parser)


def test_a_parser_that_cannot_be_built_leaves_the_raw_text():
    parser, failures = build_fallback(builds=False)
    assert parser.feed("a<b>", (1,)) == [Content("a<b>")]
    assert len(failures) == 1


def test_degrade_gives_out_what_is_held_back_once():
    parser, failures = build_fallback()
    parser.feed("_a", (1,))
    assert parser.degrade(TimeoutError("slow")) == [Content("_a")]
    assert parser.degrade(TimeoutError("slow")) == []
    assert len(failures) == 1


def test_what_is_held_back_has_a_bound(monkeypatch):
    monkeypatch.setattr(fallback, "MAX_HELD_CHARACTERS", 6)
    parser, failures = build_fallback()
    assert parser.feed("_aa", (1,)) == []
    assert parser.feed("a", (1,)) == [Content("_aaa")]  # an event frees what was held
    assert parser.feed("_bb", (1,)) == parser.feed("_cc", (1,)) == []
    assert parser.feed("_d", (1,)) == [Content("_bb_cc_d")]
    assert "HeldTooMuchError: no event for 8 characters" in str(failures[0])
