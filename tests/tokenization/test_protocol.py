import copy
import pickle
from typing import Any

import pytest
from backedge.tokenization import (
    BaseTokenizer,
    DynamoTokenizer,
    StreamingTokenizer,
    TemplateTokenizer,
    TokenizerProtocol,
)
from backedge.tokenization.detokenizer import detokenizers, read_vocabulary
from backedge.tokenization.detokenizer.tables import ByteLevelDetokenizers
from backedge.tokenization.protocol import find_missing
from hypothesis import given
from hypothesis import strategies as st

from examples.my_tokenizer import MyTokenizer
from tests.support import tiny_tokenizer
from tests.tokenization.examples import BASE, MinimalTokenizer, WordTokenizer

TOKENIZERS = {name: make() for name, make in BASE.items()}
EACH = pytest.mark.parametrize("tokenizer", TOKENIZERS.values(), ids=TOKENIZERS)
# In NFC, which the example model's tokenizer makes of every text.
TEXTS = st.text(max_size=30).map(tiny_tokenizer().normalizer.normalize_str)


def pickled(tokenizer):
    return pickle.loads(pickle.dumps(tokenizer))  # noqa: S301 - what we pickled


@EACH
@given(text=TEXTS)
def test_text_comes_back(tokenizer, text):
    assert tokenizer.decode(tokenizer.encode(text), skip_special_tokens=False) == text


@EACH
@given(texts=st.lists(TEXTS, max_size=5))
def test_a_batch_is_its_texts_one_by_one(tokenizer, texts):
    assert tokenizer.encode_batch(texts) == [tokenizer.encode(text) for text in texts]


@EACH
@given(texts=st.lists(TEXTS, max_size=5))
def test_the_tokens_of_a_text_add_up_to_it(tokenizer, texts):
    lists = list(tokenizer(iter(texts)))
    assert ["".join(tokens) for tokens in lists] == texts
    assert all(tokens.count("") == 0 for tokens in lists)


@EACH
@given(texts=st.lists(TEXTS, min_size=1, max_size=5), taken=st.integers(0, 5))
def test_no_text_is_taken_before_its_tokens_are_asked_for(tokenizer, texts, taken):
    source = iter(texts)
    stream = tokenizer(source)
    for _ in range(min(taken, len(texts))):
        next(stream)
    assert list(source) == texts[taken:]


@EACH
@given(text=TEXTS)
def test_a_copy_gives_the_same(tokenizer, text):
    for made in (pickled(tokenizer), copy.copy(tokenizer), copy.deepcopy(tokenizer)):
        assert made.encode(text) == tokenizer.encode(text)
        assert made.decode(made.encode(text)) == tokenizer.decode(tokenizer.encode(text))
        assert repr(made) == repr(tokenizer)


def test_a_copy_is_constructed_with_the_same_arguments():
    made = pickled(WordTokenizer("model", lower=True))
    assert repr(made) == "WordTokenizer('model', lower=True)"


class Halves(BaseTokenizer):
    """Nothing but the two methods that there have to be."""

    def encode(self, text: str) -> list[int]:
        return list(text.encode())

    def decode(self, token_ids, skip_special_tokens=True):
        return bytes(token_ids).decode(errors="replace")


def test_encode_and_decode_are_enough():
    required: DynamoTokenizer = Halves()
    streaming: StreamingTokenizer = Halves()
    assert required.encode_batch(["a", "é"]) == [[97], [195, 169]]
    assert list(streaming(["aé😀", ""])) == [["a", "é", "😀"], []]
    assert list(streaming.special_toks) == []
    assert repr(streaming) == "Halves()"


def test_ids_that_spell_one_character_are_one_token():
    assert list(MyTokenizer("model")(["é😀<|im_end|>\ufffd"])) == [
        ["é", "😀", "<|im_end|>", "\ufffd"]
    ]


def test_the_parsers_know_the_special_tokens():
    vocabulary = read_vocabulary(MyTokenizer("model"))
    assert vocabulary.ids == {"<|im_start|>": 256, "<|im_end|>": 257}
    assert vocabulary.special == {256, 257}


def test_a_fast_tokenizer_inside_is_detokenized_by_table():
    assert isinstance(detokenizers(TOKENIZERS["fast"]), ByteLevelDetokenizers)


@pytest.mark.parametrize("missing", ["encode", "decode"])
def test_a_method_that_is_missing_names_the_class(missing):
    methods = {"encode": Halves.encode, "decode": Halves.decode}
    del methods[missing]
    half = type("Half", (BaseTokenizer,), methods)()
    with pytest.raises(NotImplementedError, match=f"^Half has no {missing};"):
        getattr(half, missing)([])
    assert find_missing(half) == [missing]


class Prompts:
    """Makes prompts only."""

    def tokenize(self, messages, model, tools=None):
        return [len(messages)]


PROTOCOLS = (DynamoTokenizer, TemplateTokenizer, TokenizerProtocol, StreamingTokenizer)
# A tokenizer, and the protocols that it has.
INSTANCES = [
    (MinimalTokenizer(), {DynamoTokenizer}),
    (Halves(), {DynamoTokenizer, StreamingTokenizer}),
    (MyTokenizer("model"), {DynamoTokenizer, TemplateTokenizer, StreamingTokenizer}),
    (Prompts(), {TokenizerProtocol}),
    (object(), set()),
    (TOKENIZERS["fast"], {DynamoTokenizer, TokenizerProtocol, StreamingTokenizer}),
]


@pytest.mark.parametrize(("tokenizer", "protocols"), INSTANCES)
def test_isinstance_tells_what_a_tokenizer_offers(tokenizer, protocols):
    assert {each for each in PROTOCOLS if isinstance(tokenizer, each)} == protocols


def test_a_subclass_needs_its_only_method():
    class Lacking(TokenizerProtocol):
        pass

    lacking: Any = Lacking
    with pytest.raises(TypeError, match="tokenize"):
        lacking()
