"""The contract of `Detokenizer`, for every kind of tokenizer, token sequence and cut."""

from collections.abc import Sequence

import pytest
from backedge.tokenization.detokenizer import DetokenizerFactory, DetokenizerOptions, detokenizers
from backedge.tokenization.detokenizer.agreement import is_streamed_text, vocabulary_ids
from backedge.tokenization.detokenizer.offsets import decode_function
from backedge.tokenization.detokenizer.table import TableDetokenizers
from hypothesis import example, given
from hypothesis import strategies as st
from tokenizers import Tokenizer
from tokenizers.decoders import DecodeStream

from benchmarks.tokenizer_kinds import KINDS, Kind, texts
from tests.support import cut

FACTORIES = {name: detokenizers(kind.tokenizer()) for name, kind in KINDS.items()}
NAMES = pytest.mark.parametrize("name", KINDS)
HIDDEN = pytest.mark.parametrize("skip", [True, False], ids=["hidden", "shown"])
# Also from the end, where added tokens are; the first ones are special, then bytes.
TOKENS = st.lists(
    st.one_of(st.integers(0, 300), st.integers(0, 1 << 20), st.integers(-16, -1)), max_size=40
)
CUTS = st.sets(st.integers(0, 40))


def sequence(kind: Kind, numbers: Sequence[int]) -> list[int]:
    token_ids = vocabulary_ids(kind.tokenizer())
    return [token_ids[number % len(token_ids)] for number in numbers]


def text_of(
    factory: DetokenizerFactory,
    token_ids: Sequence[int],
    prompt: Sequence[int] = (),
    *,
    skip: bool = True,
) -> str:
    return "".join(
        map(factory(DetokenizerOptions(skip_special_tokens=skip), prompt).feed, token_ids)
    )


@NAMES
def test_the_way_that_the_definition_allows_is_chosen(name):
    assert type(FACTORIES[name]) is KINDS[name].factory


@NAMES
@HIDDEN
@given(numbers=TOKENS)
# More special tokens than a window has, behind text: was a lost space (mistral's SentencePiece).
@example(numbers=[*[0] * 9, *[1] * 8, 1098])
@example(numbers=[*[0] * 9, *[1] * 40, 1098])
def test_random_tokens_give_what_decode_gives(name, skip, numbers):
    kind = KINDS[name]
    token_ids = sequence(kind, numbers)
    whole = decode_function(kind.tokenizer(), skip_special_tokens=skip)(token_ids)
    text = text_of(FACTORIES[name], token_ids, skip=skip)
    assert is_streamed_text(text, whole), (text, whole)


@NAMES
@HIDDEN
@given(numbers=TOKENS, cuts=CUTS)
def test_every_cut_gives_the_same_text(name, skip, numbers, cuts):
    token_ids = sequence(KINDS[name], numbers)
    detokenizer = FACTORIES[name](DetokenizerOptions(skip_special_tokens=skip), ())
    pieces = cut(token_ids, cuts)
    assert "".join(map(detokenizer.feed_all, pieces)) == text_of(
        FACTORIES[name], token_ids, skip=skip
    )


@pytest.mark.parametrize(
    "name", [name for name, factory in FACTORIES.items() if isinstance(factory, TableDetokenizers)]
)
@HIDDEN
@given(numbers=TOKENS, split=st.integers(0, 40))
def test_random_tokens_go_on_behind_any_prompt(name, skip, numbers, split):
    token_ids = sequence(KINDS[name], numbers)
    prompt, output = token_ids[:split], token_ids[split:]
    before, text = (
        text_of(FACTORIES[name], prompt, skip=skip),
        text_of(FACTORIES[name], output, prompt, skip=skip),
    )
    assert before + text == text_of(FACTORIES[name], token_ids, skip=skip)


@NAMES
@given(text=st.text(max_size=20), split=st.integers(0, 60))
def test_text_goes_on_behind_any_prompt(name, text, split):
    token_ids = KINDS[name].encode(text)
    before = text_of(FACTORIES[name], token_ids[:split])
    assert before + text_of(FACTORIES[name], token_ids[split:], token_ids[:split]) == text_of(
        FACTORIES[name], token_ids
    )


@NAMES
@pytest.mark.parametrize("text", [*texts(), "  two  spaces ", "世界 😀😀", "ünï", ""])
def test_encoded_text_is_that_of_decode(name, text):
    kind = KINDS[name]
    token_ids = kind.encode(text)
    assert text_of(FACTORIES[name], token_ids) == decode_function(
        kind.tokenizer(), skip_special_tokens=True
    )(token_ids)


@pytest.mark.parametrize(
    "name", [name for name, kind in KINDS.items() if isinstance(kind.tokenizer(), Tokenizer)]
)
@HIDDEN
@given(numbers=TOKENS, split=st.integers(0, 10))
def test_decode_stream_gives_the_same_where_no_byte_is_wrong(name, skip, numbers, split):
    tokenizer = KINDS[name].tokenizer()
    token_ids = [
        token_id
        for token_id in sequence(KINDS[name], numbers)
        if not (tokenizer.id_to_token(token_id) or "").startswith("<0x")
        and "\ufffd" not in tokenizer.decode([token_id])
    ]
    prompt, output = token_ids[:split], token_ids[split:]
    stream = DecodeStream(ids=prompt, skip_special_tokens=skip)
    expected = "".join(stream.step(tokenizer, token_id) or "" for token_id in output)
    assert text_of(FACTORIES[name], output, prompt, skip=skip) == expected


@NAMES
def test_hidden_tokens_do_not_cut_off_the_context(name):
    kind = KINDS[name]
    ordinary = kind.encode("Hello logs and")
    special = next(
        token_id
        for token_id in vocabulary_ids(kind.tokenizer())
        if FACTORIES[name].is_special(token_id)
    )
    token_ids = [*ordinary, *[special] * 70, *kind.encode("logs")]
    expected = decode_function(kind.tokenizer(), skip_special_tokens=True)(token_ids)
    assert text_of(FACTORIES[name], token_ids) == expected
