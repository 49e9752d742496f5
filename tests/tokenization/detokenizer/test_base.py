"""The contract of `Detokenizer`, for every kind of tokenizer, token sequence and cut."""

from collections.abc import Sequence

import pytest
from backedge.tokenization.detokenizer import DetokenizerFactory, DetokenizerOptions, detokenizers
from backedge.tokenization.detokenizer.detokenizer_selection import is_streamed_text, vocabulary_ids
from backedge.tokenization.detokenizer.offsets import (
    OffsetDetokenizers,
    StreamDetokenizers,
    decode_function,
)
from backedge.tokenization.detokenizer.tables import ByteLevelDetokenizers, TableDetokenizers
from hypothesis import example, given
from hypothesis import strategies as st
from tokenizers import Tokenizer
from tokenizers.decoders import DecodeStream

from benchmarks.tokenizer_kinds import KINDS, Kind, texts
from tests.support import TRANSCRIPTS, cut, encode, tiny_tokenizer

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


def read_text(
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
# More special tokens than a window has, after text: was a lost space (mistral's SentencePiece).
@example(numbers=[*[0] * 9, *[1] * 8, 1098])
@example(numbers=[*[0] * 9, *[1] * 40, 1098])
def test_random_tokens_give_what_decode_gives(name, skip, numbers):
    kind = KINDS[name]
    token_ids = sequence(kind, numbers)
    whole = decode_function(kind.tokenizer(), skip_special_tokens=skip)(token_ids)
    text = read_text(FACTORIES[name], token_ids, skip=skip)
    assert is_streamed_text(text, whole), (text, whole)


@NAMES
@HIDDEN
@given(numbers=TOKENS, cuts=CUTS)
def test_every_cut_gives_the_same_text(name, skip, numbers, cuts):
    token_ids = sequence(KINDS[name], numbers)
    detokenizer = FACTORIES[name](DetokenizerOptions(skip_special_tokens=skip), ())
    pieces = cut(token_ids, cuts)
    assert "".join(map(detokenizer.feed_all, pieces)) == read_text(
        FACTORIES[name], token_ids, skip=skip
    )


@pytest.mark.parametrize(
    "name", [name for name, factory in FACTORIES.items() if isinstance(factory, TableDetokenizers)]
)
@HIDDEN
@given(numbers=TOKENS, split=st.integers(0, 40))
def test_random_tokens_go_on_after_any_prompt(name, skip, numbers, split):
    token_ids = sequence(KINDS[name], numbers)
    prompt, output = token_ids[:split], token_ids[split:]
    before, text = (
        read_text(FACTORIES[name], prompt, skip=skip),
        read_text(FACTORIES[name], output, prompt, skip=skip),
    )
    assert before + text == read_text(FACTORIES[name], token_ids, skip=skip)


@NAMES
@given(text=st.text(max_size=20), split=st.integers(0, 60))
def test_text_goes_on_after_any_prompt(name, text, split):
    token_ids = KINDS[name].encode(text)
    before = read_text(FACTORIES[name], token_ids[:split])
    assert before + read_text(FACTORIES[name], token_ids[split:], token_ids[:split]) == read_text(
        FACTORIES[name], token_ids
    )


@NAMES
@pytest.mark.parametrize("text", [*texts(), "  two  spaces ", "世界 😀😀", "ünï", ""])
def test_encoded_text_is_that_of_decode(name, text):
    kind = KINDS[name]
    token_ids = kind.encode(text)
    assert read_text(FACTORIES[name], token_ids) == decode_function(
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
    assert read_text(FACTORIES[name], output, prompt, skip=skip) == expected


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
    assert read_text(FACTORIES[name], token_ids) == expected


VOCABULARY = tiny_tokenizer().get_vocab_size()
# Each detokenizer that can serve the example model.
EXAMPLE_MODEL = [
    pytest.param(ByteLevelDetokenizers(tiny_tokenizer()), id="byte level"),
    pytest.param(StreamDetokenizers(tiny_tokenizer()), id="stream"),
    pytest.param(OffsetDetokenizers(tiny_tokenizer()), id="offsets"),
]


@pytest.mark.parametrize("factory", EXAMPLE_MODEL)
@pytest.mark.parametrize(
    "transcript", TRANSCRIPTS.values(), ids=lambda transcript: transcript["id"]
)
def test_text_is_that_of_the_whole_sequence(factory, transcript):
    output = transcript["output"]
    assert read_text(factory, encode(output), skip=False) == output


@pytest.mark.parametrize("factory", EXAMPLE_MODEL)
@given(token_ids=st.lists(st.integers(0, VOCABULARY - 1), max_size=40))
def test_random_tokens_of_the_example_model_give_what_decode_gives(factory, token_ids):
    whole = tiny_tokenizer().decode(token_ids, skip_special_tokens=False)
    text = read_text(factory, token_ids, skip=False)
    # Bytes that never become a character may end the text; they are not returned.
    assert whole.startswith(text)
    assert set(whole[len(text) :]) <= {"\ufffd"}


@pytest.mark.parametrize("factory", EXAMPLE_MODEL)
@given(text=st.text(max_size=20), split=st.integers(0, 60))
def test_the_example_model_goes_on_after_any_prompt(factory, text, split):
    token_ids = encode(text)
    prompt, output = token_ids[:split], token_ids[split:]
    given = read_text(factory, output, prompt, skip=False)
    whole = tiny_tokenizer().decode(token_ids, skip_special_tokens=False)
    assert whole.endswith(given)
    # At most the character that the prompt ends in belongs to the prompt alone.
    complete = tiny_tokenizer().decode(prompt, skip_special_tokens=False).rstrip("\ufffd")
    assert len(complete) + len(given) >= len(whole.rstrip("\ufffd")) - 1


@pytest.mark.parametrize("factory", EXAMPLE_MODEL)
def test_half_a_character_in_the_prompt_does_not_repeat_the_prompt(factory):
    token_ids = encode("Say: 世")
    assert read_text(factory, token_ids[-1:], token_ids[:-1], skip=False) == "世"


@pytest.mark.parametrize("factory", EXAMPLE_MODEL)
def test_half_a_character_is_never_given_out(factory):
    assert read_text(factory, encode("ok 世")[:-1], skip=False) == "ok "


@pytest.mark.parametrize("factory", EXAMPLE_MODEL)
def test_invalid_bytes_do_not_pile_up(factory):
    stray = encode("世")[-1]
    text = read_text(factory, [stray] * 64 + encode("ok"), skip=False)
    assert text.endswith("ok")
    assert len(text) > 60


@pytest.mark.parametrize("factory", EXAMPLE_MODEL[:2])
def test_an_id_outside_the_vocabulary_has_no_text(factory):
    assert read_text(factory, [*encode("a"), -1, 10**6, 2**40, *encode("b")], skip=False) == "ab"
    assert factory.token_bytes(-1) == b""
