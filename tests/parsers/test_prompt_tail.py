"""In which state a prompt leaves the answer: whatever lies between the marker and its end."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from backedge.base.limits import MAX_DECODED
from backedge.parsers.base import ParserNames, ParserRequest
from backedge.parsers.linear_parsers import LinearParsers, Vocabulary
from backedge.parsers.parser_lookup import linear_parsers, reasoning_format
from backedge.parsers.prompt_tail import decode_back, find_last
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.samples.tokenizers import bpe, encode
from tests.parsers.families import FAMILIES
from tests.parsers.families.family import HISTORY, TURN, Family
from tests.parsers.sample_model import cached_linear_parsers

REASONING = [family for family in FAMILIES.values() if family.tags is not None]
# The formats whose every answer begins with a header need their markers as tokens.
BY_HEADER = {"openai", "beam", "muse_glimmer", "inkling", "kimi_k3"}
# Where the first message's header begins in the prompt.
REOPENS = {"muse_glimmer": "<|start|>assistant to=self<|message|>"}
every_family = pytest.mark.parametrize("family", REASONING, ids=lambda family: family.name)


def in_reasoning(family: Family, written: str, words: int, *, as_tokens: bool) -> bool:
    """Whether the answer after what was `written`, and `words` tokens, begins in reasoning."""
    tokenizer = bpe(family.markers, family.special) if as_tokens else bpe()
    word = encode(tokenizer, "x")[-1]
    prompt = [*encode(tokenizer, HISTORY + TURN + written), *[word] * words]
    parsers = cached_linear_parsers(ParserNames(reasoning=family.reasoning_parser), tokenizer)
    return parsers(ParserRequest(), prompt).in_reasoning


@every_family
@pytest.mark.parametrize("as_tokens", [True, False], ids=["tokens", "text"])
@pytest.mark.parametrize("words", [0, 10, 63, 64, 65, 500, 5000])
def test_the_length_of_what_is_continued_changes_nothing(
    family: Family, as_tokens: bool, words: int
) -> None:
    tags = family.tags
    assert tags is not None
    if not as_tokens and family.name in BY_HEADER:
        pytest.skip("refused without its tokens")
    opened = tags.prompt_open or tags.start
    closed = tags.start + "First." + tags.end
    again = closed + REOPENS.get(family.name, tags.start)
    assert in_reasoning(family, opened + " I", words, as_tokens=as_tokens)
    assert not in_reasoning(family, closed + " It", words, as_tokens=as_tokens)
    assert in_reasoning(family, again + " I", words, as_tokens=as_tokens)


@every_family
@settings(max_examples=30, deadline=None, database=None)
@given(data=st.data())
def test_any_length(family: Family, data: st.DataObject) -> None:
    tags = family.tags
    assert tags is not None
    written = data.draw(st.sampled_from([tags.start, tags.start + "So." + tags.end]))
    as_tokens = family.name in BY_HEADER or data.draw(st.booleans())
    words = data.draw(st.integers(0, MAX_DECODED - 200))
    assert in_reasoning(family, written + " I", words, as_tokens=as_tokens) == in_reasoning(
        family, written + " I", 0, as_tokens=as_tokens
    )


@every_family
def test_an_earlier_turn_decides_nothing(family: Family) -> None:
    tags = family.tags
    assert tags is not None
    alone = in_reasoning(family, "", 0, as_tokens=True)
    for earlier in (tags.start + "So.", tags.start + "So." + tags.end + "Yes."):
        turns = f"{earlier}<|im_end|>\n{HISTORY}{TURN}"
        assert in_reasoning(family, turns, 0, as_tokens=True) == alone


@pytest.mark.parametrize(
    ("name", "dropped"),
    [
        ("cohere_command3", "<co>a</co: 0:[1]>"),
        ("cohere_command3", "<co: 0>a</co: 0>"),
        ("deepseek_v3", "<｜tool▁calls▁end｜>"),
    ],
)
@pytest.mark.parametrize("as_tokens", [True, False], ids=["tokens", "text"])
def test_a_marker_that_is_dropped_from_reasoning_does_not_end_it(
    name: str, dropped: str, as_tokens: bool
) -> None:
    family = FAMILIES[name]
    assert family.tags is not None
    assert in_reasoning(family, f"{family.tags.start}So {dropped} I", 3, as_tokens=as_tokens)
    closed = f"{family.tags.start}So{family.tags.end}It {dropped} is"
    assert not in_reasoning(family, closed, 3, as_tokens=as_tokens)


END_OF_TURN, THINK, END, WORD_ID = 1, 2, 3, 9
TEXTS = {END_OF_TURN: "<|im_end|>", THINK: "<think>", END: "</think>", WORD_ID: "a"}


@dataclass
class Decoder:
    """Decodes, and counts the tokens it was given."""

    decoded: int = 0

    def __call__(self, token_ids: object) -> str:
        assert isinstance(token_ids, list)
        self.decoded += len(token_ids)
        return "".join(TEXTS[token] for token in token_ids)


def build_counting_parsers(decoder: Decoder, *, as_tokens: bool) -> LinearParsers:
    ids = {text: token for token, text in TEXTS.items() if as_tokens or token == END_OF_TURN}
    ids.pop("a", None)
    vocabulary = Vocabulary(ids, frozenset({END_OF_TURN}), decoder)
    return LinearParsers(None, reasoning_format("deepseek_v3"), vocabulary)


@pytest.mark.parametrize(
    ("tail", "reasons"), [("<think>\n", True), ("<think>\n\n</think>\n\n", False)]
)
def test_a_prompt_outranks_the_switch_that_another_one_outranks(tail: str, reasons: bool) -> None:
    """Kolibri 1's template asks for `reasoning_effort` before `enable_thinking`."""
    parsers = linear_parsers(
        ParserNames("kolibri1", "kolibri1"), Vocabulary(decode=lambda _: f"{TURN}{tail}")
    )
    switches = {"enable_thinking": not reasons, "reasoning_effort": "high" if reasons else "none"}
    assert parsers(ParserRequest(chat_template_kwargs=switches), [0]).in_reasoning is reasons


def test_markers_that_are_tokens_are_found_without_decoding() -> None:
    decoder = Decoder()
    parsers = build_counting_parsers(decoder, as_tokens=True)
    assert parsers(ParserRequest(), [THINK, *[WORD_ID] * 200_000]).in_reasoning
    assert not parsers(ParserRequest(), [THINK, END, *[WORD_ID] * 200_000]).in_reasoning
    assert not parsers(ParserRequest(), [THINK, END_OF_TURN, WORD_ID]).in_reasoning
    assert decoder.decoded == 0


def test_the_tokens_decoded_in_search_of_text_are_bounded() -> None:
    decoder = Decoder()
    parsers = build_counting_parsers(decoder, as_tokens=False)
    assert not parsers(ParserRequest(), [WORD_ID] * 200_000).in_reasoning
    assert decoder.decoded < 1.2 * MAX_DECODED


def test_text_that_spells_a_token_decides_nothing() -> None:
    """As in the output: a marker is a token, or text, never both."""
    decoder = Decoder()
    parsers = build_counting_parsers(decoder, as_tokens=True)
    TEXTS[10] = "</think>"
    assert parsers(ParserRequest(), [THINK, 10, WORD_ID]).in_reasoning


def test_no_text_is_decoded_before_the_last_marker_token() -> None:
    decoded: list[list[int]] = []

    def decode(token_ids: object) -> str:
        assert isinstance(token_ids, list)
        decoded.append(token_ids)
        return ""

    # Magistral's second pair of tags is text.
    parsers = linear_parsers(
        ParserNames(reasoning="mistral"), Vocabulary({"[THINK]": THINK}, frozenset(), decode)
    )
    assert parsers(ParserRequest(), [8, 8, THINK, 9, 9]).in_reasoning
    assert decoded == [[9, 9]]


@given(
    st.lists(st.integers(0, 3), max_size=30),
    st.sets(st.integers(0, 3)),
    st.sampled_from([0, 4095, 4096, 9000]),
)
def test_find_last(token_ids: list[int], wanted: set[int], behind: int) -> None:
    expected = max((at for at, token in enumerate(token_ids) if token in wanted), default=-1)
    assert find_last([*token_ids, *[7] * behind], wanted) == expected


def test_decode_back_gives_longer_and_longer_ends() -> None:
    lengths = [
        len(text) for text in decode_back([0] * 50_000, 100, lambda token_ids: "x" * len(token_ids))
    ]
    assert lengths == [128, 1024, MAX_DECODED]
    assert list(decode_back([5, 6, 7], 1, repr)) == ["[6, 7]"]
    assert list(decode_back([5], 1, repr)) == []
