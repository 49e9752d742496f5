"""Decoding by offsets: the window, the context of the prompt, unfinished characters."""

import pytest
from backedge.tokenization.detokenizer import DetokenizerOptions
from backedge.tokenization.detokenizer.offsets import (
    CONTEXT_TOKENS,
    MAX_WINDOW_TOKENS,
    UNFINISHED_BYTES,
    OffsetDetokenizers,
    decode_function,
    drop_unfinished_character,
    select_context,
)
from hypothesis import given
from hypothesis import strategies as st


class Bytes:
    """Ids below 256 are bytes, 256 is a special token."""

    all_special_ids = (256,)
    longest = 0

    def decode(self, token_ids, skip_special_tokens=True):
        self.longest = max(self.longest, len(token_ids))
        shown = b"" if skip_special_tokens else b"<s>"
        return b"".join(
            shown if token_id == 256 else bytes([token_id]) for token_id in token_ids
        ).decode(errors="replace")


decode = decode_function(Bytes(), skip_special_tokens=True)


@pytest.mark.parametrize(
    ("text", "rest"),
    [
        ("", ""),
        ("a", "a"),
        ("a\ufffd", "a"),
        ("a\ufffd\ufffd\ufffd", "a"),
        ("a" + "\ufffd" * 5, "a\ufffd\ufffd"),
        ("\ufffda", "\ufffda"),
    ],
)
def test_at_most_one_unfinished_character_is_dropped(text, rest):
    assert drop_unfinished_character(text) == rest


# prompt, context, how many tokens of it form whole characters
CONTEXTS = [
    (b"", b"", 0),
    (b"abc", b"abc", 3),
    (b"0123456789", b"23456789", 8),
    ("0123456世".encode(), "23456世".encode(), 8),
    ("0123456世".encode()[:-1], "3456世".encode()[:-1], 5),
    (b"\x80" * 20, b"\x80" * 8, 0),
]


@pytest.mark.parametrize(("prompt", "context", "complete"), CONTEXTS)
def test_the_context_is_the_end_of_the_prompt(prompt, context, complete):
    found, whole = select_context(decode, list(prompt), frozenset())
    assert found[-len(context) :] == list(context) or not context
    assert len(found) <= CONTEXT_TOKENS + UNFINISHED_BYTES
    assert not decode(found[:whole]).endswith("\ufffd")
    assert bool(whole) == bool(complete)


def test_hidden_special_tokens_are_not_part_of_the_context():
    assert select_context(decode, [*b"ab", *[256] * 50], frozenset({256})) == ([*b"ab"], 2)
    show = decode_function(Bytes(), skip_special_tokens=False)
    assert select_context(show, [*b"ab", 256], frozenset({256})) == ([*b"ab", 256], 3)


@given(token_ids=st.lists(st.integers(0, 256), max_size=200))
def test_the_window_has_a_bound(token_ids):
    tokenizer = Bytes()
    feed = OffsetDetokenizers(tokenizer)(DetokenizerOptions(), ()).feed
    for token_id in token_ids:
        feed(token_id)
    assert tokenizer.longest <= MAX_WINDOW_TOKENS + 1


@given(text=st.text(max_size=40))
def test_the_pieces_add_up_to_the_text(text):
    feed = OffsetDetokenizers(Bytes())(DetokenizerOptions(), ()).feed
    whole = "".join(map(feed, text.encode()))
    assert whole == drop_unfinished_character(text) or text.startswith(whole)
    assert "".join(map(feed, b"!")).endswith("!")


class Counter:
    """Its text has nothing to do with that of fewer tokens."""

    def decode(self, token_ids, skip_special_tokens=True):
        return f"{len(token_ids)} tokens" if token_ids else ""


def test_text_that_is_rewritten_goes_on_from_the_tokens_that_rewrote_it():
    feed = OffsetDetokenizers(Counter())(DetokenizerOptions(), ()).feed
    assert [feed(1) for _ in range(3)] == ["1 tokens", "1 tokens", "1 tokens"]


def test_bytes_and_special_tokens_of_any_object():
    factory = OffsetDetokenizers(Bytes())
    assert factory.token_bytes(ord("a")) == b"a"
    assert factory.token_bytes(256) == b"<s>"
    assert [factory.is_special(token_id) for token_id in (97, 256)] == [False, True]


def test_mistral_tokenizers_are_decoded_by_pieces():
    class Pieces(Bytes):
        is_spm = True

        def convert_ids_to_tokens(self, token_ids, *, skip_special_tokens):
            return [f"{token_id}:{skip_special_tokens}" for token_id in token_ids]

        def convert_tokens_to_string(self, tokens):
            return " ".join(tokens)

    assert decode_function(Pieces(), skip_special_tokens=False)([1, 2]) == "1:False 2:False"
