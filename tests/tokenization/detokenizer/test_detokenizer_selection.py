"""Which detokenizer is selected, and what is logged if it differs from decode()."""

import logging
from typing import Any

import pytest
from backedge.tokenization.detokenizer import DetokenizerOptions, detokenizers
from backedge.tokenization.detokenizer.offsets import (
    OffsetDetokenizers,
    StreamDetokenizer,
    StreamDetokenizers,
)
from backedge.tokenization.detokenizer.sentencepiece import PieceRules
from backedge.tokenization.detokenizer.tables import ByteLevelDetokenizers
from tokenizers import Tokenizer, decoders, models
from transformers import PreTrainedTokenizerFast

from benchmarks.tokenizer_kinds import DecodeOnly, llama, wordpiece
from tests.support import encode, tiny_tokenizer

TABLE = "a table of SentencePiece pieces would not give"
STREAM = "tokenizers' DecodeStream would not give"
OFFSETS = "offsets into decode(), the last choice, does not always give"


def read_text(tokenizer: Any, token_ids: list[int]) -> str:
    return detokenizers(tokenizer)(DetokenizerOptions(), ()).feed_all(token_ids)


def wrong(self: Any, *_: Any) -> str:
    return "wrong"


@pytest.mark.parametrize(
    ("broken", "expected", "logged"),
    [
        ([], None, []),
        ([(PieceRules, "decode")], StreamDetokenizers, [TABLE]),
        (
            [(PieceRules, "decode"), (StreamDetokenizer, "feed")],
            OffsetDetokenizers,
            [TABLE, STREAM],
        ),
    ],
)
def test_a_candidate_that_differs_is_replaced_by_the_next(
    monkeypatch, caplog, broken, expected, logged
):
    for owner, method in broken:
        monkeypatch.setattr(owner, method, wrong)
    with caplog.at_level(logging.WARNING):
        factory = detokenizers(llama())
    assert expected is None or type(factory) is expected
    assert len(caplog.messages) == len(logged)
    for message, start in zip(caplog.messages, logged, strict=True):
        assert start in message
        assert "'wrong" in message, "the log says what differed"


class Forgetful(DecodeOnly):
    """Its text has nothing to do with that of fewer tokens."""

    def decode(self, token_ids, skip_special_tokens=True):
        return f"{len(token_ids)} tokens" if token_ids else ""


class Raising(DecodeOnly):
    def decode(self, token_ids, skip_special_tokens=True):
        raise KeyError("no such token")


@pytest.mark.parametrize(
    ("tokenizer", "reason"), [(Forgetful, "instead of"), (Raising, "KeyError")]
)
def test_the_last_candidate_is_taken_whatever_it_gives(caplog, tokenizer, reason):
    with caplog.at_level(logging.WARNING):
        factory = detokenizers(tokenizer(tiny_tokenizer()))
    assert type(factory) is OffsetDetokenizers
    [message] = caplog.messages
    assert OFFSETS in message
    assert reason in message


def test_a_tokenizer_without_a_vocabulary_cannot_be_checked(caplog):
    class Bare:
        def decode(self, token_ids, skip_special_tokens=True):
            return tiny_tokenizer().decode(token_ids, skip_special_tokens=skip_special_tokens)

    assert read_text(Bare(), encode("Say: 世!")) == "Say: 世!"
    assert not caplog.messages


def test_a_tokenizer_without_a_decoder_goes_by_stream():
    tokenizer = Tokenizer(models.WordLevel({"a": 0, "b": 1}, unk_token="a"))
    assert type(detokenizers(tokenizer)) is StreamDetokenizers
    assert read_text(tokenizer, [0, 1, 0]) == "a b a"


def test_clean_up_is_not_done_as_in_vllm():
    backend = wordpiece()
    # BertPreTokenizer takes it apart; transformers' clean-up joins it again.
    token_ids = backend.encode("do n't , no", add_special_tokens=False).ids
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend, clean_up_tokenization_spaces=True)
    assert read_text(tokenizer, token_ids) == backend.decode(token_ids)


def test_clean_up_of_python_tokenizers_is_turned_off():
    class Cleaning(DecodeOnly):
        clean_up_tokenization_spaces = True

        def decode(self, token_ids, skip_special_tokens=True, clean_up_tokenization_spaces=None):
            text = super().decode(token_ids, skip_special_tokens)
            return text if clean_up_tokenization_spaces is False else text.replace(" .", ".")

    assert read_text(Cleaning(tiny_tokenizer()), encode("a . b")) == "a . b"


def test_a_byte_level_decoder_in_a_sequence_is_not_taken_for_one():
    tokenizer = Tokenizer.from_str(tiny_tokenizer().to_str())
    tokenizer.decoder = decoders.Sequence([decoders.ByteLevel(), decoders.Strip("x", 1, 0)])
    assert type(detokenizers(tokenizer)) is not ByteLevelDetokenizers
