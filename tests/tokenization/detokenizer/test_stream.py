"""DecodeStream, and the switch to offsets where it fails or gets stuck."""

from functools import partial

import pytest
from backedge.tokenization.detokenizer import DetokenizerOptions
from backedge.tokenization.detokenizer.offsets import MAX_HELD_TOKENS, StreamDetokenizers
from tokenizers import Tokenizer, models
from tokenizers.decoders import DecodeStream

from benchmarks.tokenizer_kinds import llama, wordpiece
from tests.support import encode, tiny_tokenizer

SHOW = DetokenizerOptions(skip_special_tokens=False)


def find_id(tokenizer: Tokenizer, piece: str) -> int:
    token_id = tokenizer.token_to_id(piece)
    assert token_id is not None
    return token_id


def test_a_run_without_text_is_given_out_after_a_bound():
    stray = encode("世")[-1]
    feed = StreamDetokenizers(tiny_tokenizer())(SHOW, ()).feed
    texts = [feed(stray) for _ in range(MAX_HELD_TOKENS + 1)]
    assert texts[: MAX_HELD_TOKENS - 1] == [""] * (MAX_HELD_TOKENS - 1)
    assert "\ufffd" in texts[MAX_HELD_TOKENS - 1]
    assert "".join(map(feed, encode("ok"))).endswith("ok")


def test_a_decoder_that_takes_text_back_is_followed_by_offsets():
    tokenizer = llama()
    pieces = ["s", "<0x41>", "<0xFF>", "s"]
    token_ids = [find_id(tokenizer, piece) for piece in pieces]
    stream = DecodeStream(ids=[], skip_special_tokens=False)
    with pytest.raises(Exception, match="Invalid prefix encountered"):
        list(map(partial(stream.step, tokenizer), token_ids))
    feed = StreamDetokenizers(tokenizer)(SHOW, ()).feed
    assert "".join(map(feed, token_ids)).endswith("s")


def test_an_id_that_is_none_has_no_text():
    feed = StreamDetokenizers(tiny_tokenizer())(SHOW, ()).feed
    assert [feed(token_id) for token_id in (-1, 2**40, *encode("a"))] == ["", "", "a"]


def test_bytes_of_tokens():
    factory = StreamDetokenizers(wordpiece())
    tokenizer = wordpiece()
    assert factory.token_bytes(find_id(tokenizer, "<think>")) == b"<think>"
    assert factory.token_bytes(find_id(tokenizer, "##s")) == b"s"
    assert factory.token_bytes(-1) == b""
    assert factory.is_special(find_id(tokenizer, "</s>"))
    assert not factory.is_special(find_id(tokenizer, "<think>"))


def test_a_tokenizer_without_a_decoder():
    tokenizer = Tokenizer(models.WordLevel({"a": 0, "b": 1}, unk_token="a"))
    assert StreamDetokenizers(tokenizer)(SHOW, [0]).feed_all([1, 0]) == " b a"
