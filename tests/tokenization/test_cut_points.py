"""Where texts are cut, and which tokenizers are not trusted."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from types import SimpleNamespace

import pytest
from backedge.base.limits import MAX_ADDED_CHARACTERS, MAX_ADDED_TOGETHER, MAX_CUT_TOKENS
from backedge.tokenization import cut_points
from backedge.tokenization.cut_points import CutPoints, NoCutsError, find_cut_points, select_tokens
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers, processors

from tests.tokenization import real_tokenizers
from tests.tokenization.cut_kinds import MARKERS, NAMES, PIECES, REAL, load

TEXTS = st.lists(st.sampled_from(PIECES) | st.text(max_size=3), max_size=30).map("".join)


def encode(tokenizer: Tokenizer, text: str) -> list[int]:
    token_ids: list[int] = tokenizer.encode_batch_fast([text], add_special_tokens=False)[0].ids
    return token_ids


@pytest.mark.parametrize("name", NAMES)
@given(TEXTS, st.integers(1, 40))
def test_the_parts_have_the_ids_of_the_whole(name: str, text: str, least: int) -> None:
    tokenizer = load(name)
    parts = find_cut_points_of(name).split(text, least)
    assert "".join(parts) == text
    assert all(len(part) >= least for part in parts[:-1])
    assert [token_id for part in parts for token_id in encode(tokenizer, part)] == encode(
        tokenizer, text
    )


@pytest.mark.parametrize("name", NAMES)
def test_all_neighbours(name: str) -> None:
    tokenizer, cuts = load(name), find_cut_points_of(name)
    texts = [left + right + left for left in PIECES for right in PIECES]
    split = [cuts.split(text, 1) for text in texts]
    encodings = iter(encode_all(tokenizer, [part for parts in split for part in parts]))
    for text, parts, whole in zip(texts, split, encode_all(tokenizer, texts), strict=True):
        joined = [token_id for _ in parts for token_id in next(encodings)]
        assert joined == whole, text


def encode_all(tokenizer: Tokenizer, texts: Sequence[str]) -> list[list[int]]:
    return [found.ids for found in tokenizer.encode_batch_fast(texts, add_special_tokens=False)]


CUTS: dict[str, CutPoints] = {}


def find_cut_points_of(name: str) -> CutPoints:
    if name not in CUTS:
        CUTS[name] = find_cut_points(load(name))
    return CUTS[name]


@pytest.mark.parametrize("name", NAMES)
def test_every_kind_is_cut_at_its_markers(name: str) -> None:
    expected = {"<|start|>", "[INST]"} if "trouble" in name else set(MARKERS)
    if name in REAL:
        expected = set(real_tokenizers.MARKERS)
    assert expected <= set(find_cut_points_of(name).tokens)


@given(TEXTS, TEXTS, st.integers(1, 40))
def test_a_longer_text_begins_with_the_same_parts(text: str, more: str, least: int) -> None:
    cuts = CutPoints(MARKERS)
    longer = cuts.split(text + MARKERS[0] + more, least)
    *parts, _ = cuts.split(text, least)
    assert longer[: len(parts)] == parts


@given(st.lists(st.sampled_from([*MARKERS, "<|", "<|sta", "[I", "ab"]), max_size=20).map("".join))
def test_every_marker_is_found(text: str) -> None:
    cuts = [at for at in range(1, len(text)) if text.startswith(MARKERS, at)]
    parts = CutPoints(MARKERS).split(text, 1)
    assert parts == [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]


def added(*tokens: AddedToken | str) -> dict[int, AddedToken]:
    return dict(
        enumerate(
            AddedToken(token, normalized=False) if isinstance(token, str) else token
            for token in tokens
        )
    )


# added tokens, those at which a text may be cut
SELECTIONS: list[tuple[Sequence[AddedToken | str], set[str]]] = [
    (["<a>", "<b>"], {"<a>", "<b>"}),
    # Of two that overlap, the one that comes first in a text is found.
    (["<a>", "b<a"], set()),
    (["<a>", ">b"], {"<a>"}),
    (["<a>", "<a>\n"], {"<a>\n"}),
    (["<a>", "x<a>"], set()),
    (["<a<"], set()),
    ([AddedToken("<a>", lstrip=True, normalized=False)], set()),
    ([AddedToken("<a>", rstrip=True, normalized=False)], {"<a>"}),
    ([AddedToken("<a>", single_word=True, normalized=False)], set()),
    ([AddedToken("<a>", normalized=True)], set()),
    # A normalized token counts as a neighbour: the text may be found before it is normalized, too.
    ([AddedToken("b<a", normalized=True), "<a>"], set()),
    # One that begins with a letter changes whether a single word in front of it is one.
    (["a>", "_b>", " c>", "\u2581d"], set()),
    (["<" + "a" * 100 + ">"], set()),
]


@pytest.mark.parametrize(("tokens", "expected"), SELECTIONS)
def test_only_tokens_that_are_found_anywhere_cut(
    tokens: Sequence[AddedToken | str], expected: set[str]
) -> None:
    assert set(select_tokens(added(*tokens))) == expected


def test_of_many_tokens_those_for_later_use_come_last() -> None:
    tokens = added(*(f"<{number}>" for number in range(MAX_CUT_TOKENS)))
    tokens[MAX_CUT_TOKENS] = AddedToken("<s>", special=True, normalized=False)
    tokens[MAX_CUT_TOKENS + 1] = AddedToken("<think>", special=False, normalized=False)
    selected = select_tokens(tokens)
    assert len(selected) == MAX_CUT_TOKENS
    assert {"<s>", "<think>"} <= set(selected)


class ReadsAll:
    """A step in Python, which could do anything."""

    def pre_tokenize(self, text: object) -> None:
        """Leave the text as it is."""


def set_truncation(tokenizer: Tokenizer) -> None:
    tokenizer.enable_truncation(5)


def set_padding(tokenizer: Tokenizer) -> None:
    tokenizer.enable_padding()


def read_special_as_text(tokenizer: Tokenizer) -> None:
    tokenizer.encode_special_tokens = True


def set_dropout(tokenizer: Tokenizer) -> None:
    tokenizer.model.dropout = 0.1


def set_custom_step(tokenizer: Tokenizer) -> None:
    tokenizer.pre_tokenizer = pre_tokenizers.PreTokenizer.custom(ReadsAll())


def write_twice(tokenizer: Tokenizer) -> None:
    tokenizer.post_processor = processors.TemplateProcessing(single="$A $A", special_tokens=[])


def write_twice_inside(tokenizer: Tokenizer) -> None:
    write_twice(tokenizer)
    tokenizer.post_processor = processors.Sequence(
        [processors.ByteLevel(), tokenizer.post_processor]
    )


def draw_pieces(tokenizer: Tokenizer) -> None:
    tokenizer.model = models.Unigram([("<unk>", 0.0), ("a", -1.0)], 0, alpha=0.5, nbest_size=3)


def add_a_long_token(tokenizer: Tokenizer) -> None:
    tokenizer.add_tokens([f"<{'x' * MAX_ADDED_CHARACTERS}>"])


def add_many_tokens(tokenizer: Tokenizer) -> None:
    count = MAX_ADDED_TOGETHER // 200 + 1
    tokenizer.add_tokens([f"<{number:0198d}>" for number in range(count)])


DISTRUSTED: list[tuple[Callable[[Tokenizer], None], str]] = [
    (set_truncation, "truncation"),
    (set_padding, "padding"),
    (read_special_as_text, "special tokens as text"),
    (set_dropout, "dropout"),
    (draw_pieces, "alpha"),
    (set_custom_step, "pre-tokenizer"),
    (write_twice, "once"),
    (write_twice_inside, "once"),
    (add_a_long_token, "too long"),
    (add_many_tokens, "too long"),
]


@pytest.mark.parametrize(("change", "reason"), DISTRUSTED)
def test_other_tokenizers_are_not_trusted(change: Callable[[Tokenizer], None], reason: str) -> None:
    tokenizer = Tokenizer.from_str(load("GPT-2").to_str())
    find_cut_points(tokenizer)
    change(tokenizer)
    with pytest.raises(NoCutsError, match=reason):
        find_cut_points(tokenizer)


def test_a_step_of_a_later_version_is_not_trusted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("backedge.tokenization.cut_points.PRE_TOKENIZERS", frozenset({"Sequence"}))
    with pytest.raises(NoCutsError, match="ByteLevel is unknown"):
        find_cut_points(load("GPT-2"))


def test_a_tokenizer_without_added_tokens_is_not_cut() -> None:
    with pytest.raises(NoCutsError, match="no added token"):
        find_cut_points(Tokenizer(models.BPE()))


NORMALIZED = AddedToken("<x>", normalized=True)
LEFT = AddedToken("<y>", lstrip=True, normalized=False)


@pytest.mark.parametrize("token", [NORMALIZED, LEFT], ids=str)
def test_tokens_that_are_not_what_they_seem_are_noticed(
    monkeypatch: pytest.MonkeyPatch, token: AddedToken
) -> None:
    tokenizer = Tokenizer.from_str(load("Llama 2").to_str())
    tokenizer.add_tokens([token])
    monkeypatch.setattr(
        "backedge.tokenization.cut_points.select_tokens", lambda _: [str(token.content)]
    )
    with pytest.raises(NoCutsError, match="other ids"):
        find_cut_points(tokenizer)


def test_the_search_reads_a_text_once_however_many_tokens_begin_alike(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    searched = 0

    class Counting:
        def __init__(self, pattern: str) -> None:
            self.pattern = re.compile(pattern)

        def search(self, text: str, start: int) -> re.Match[str] | None:
            nonlocal searched
            match = self.pattern.search(text, start)
            searched += (match.start() if match else len(text)) - start
            return match

    monkeypatch.setattr(cut_points, "re", SimpleNamespace(compile=Counting, escape=re.escape))
    cuts = CutPoints([f"<{number}>" for number in range(MAX_CUT_TOKENS)] + ["[x]", "{y}"])
    text = "[x]" + "<7>abc" * 10_000 + "{y}"
    cuts.split(text, 10)
    assert searched <= 3 * len(text)
