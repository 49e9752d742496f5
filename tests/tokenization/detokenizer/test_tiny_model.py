from collections.abc import Sequence

import pytest
from backedge.tokenization.detokenizer import DetokenizerFactory, DetokenizerOptions
from backedge.tokenization.detokenizer.offsets import OffsetDetokenizers
from backedge.tokenization.detokenizer.pieces import BYTE_LEVEL, piece_bytes
from backedge.tokenization.detokenizer.stream import StreamDetokenizers
from hypothesis import given
from hypothesis import strategies as st

from tests.support import TRANSCRIPTS, encode, tiny_detokenizers, tiny_tokenizer

SHOW = DetokenizerOptions(skip_special_tokens=False)
VOCABULARY = tiny_tokenizer().get_vocab_size()


FACTORIES = [
    pytest.param(tiny_detokenizers(), id="byte level"),
    pytest.param(StreamDetokenizers(tiny_tokenizer()), id="stream"),
    pytest.param(OffsetDetokenizers(tiny_tokenizer()), id="offsets"),
]


def text_of(
    factory: DetokenizerFactory,
    token_ids: Sequence[int],
    prompt: Sequence[int] = (),
    options: DetokenizerOptions = SHOW,
) -> str:
    detokenizer = factory(options, prompt)
    return "".join(detokenizer.feed(token_id) for token_id in token_ids)


@pytest.mark.parametrize("factory", FACTORIES)
@pytest.mark.parametrize(
    "transcript", TRANSCRIPTS.values(), ids=lambda transcript: transcript["id"]
)
def test_text_is_that_of_the_whole_sequence(factory, transcript):
    output = transcript["output"]
    assert text_of(factory, encode(output)) == output


@pytest.mark.parametrize("factory", FACTORIES)
@given(token_ids=st.lists(st.integers(0, VOCABULARY - 1), max_size=40))
def test_random_tokens_give_what_decode_gives(factory, token_ids):
    whole = tiny_tokenizer().decode(token_ids, skip_special_tokens=False)
    text = text_of(factory, token_ids)
    # Bytes that never become a character may end the text, and are not given out.
    assert whole.startswith(text)
    assert set(whole[len(text) :]) <= {"\ufffd"}


@pytest.mark.parametrize("factory", FACTORIES)
@given(text=st.text(max_size=20), split=st.integers(0, 60))
def test_goes_on_behind_any_prompt(factory, text, split):
    token_ids = encode(text)
    prompt, output = token_ids[:split], token_ids[split:]
    given = text_of(factory, output, prompt)
    whole = tiny_tokenizer().decode(token_ids, skip_special_tokens=False)
    assert whole.endswith(given)
    # At most the character that the prompt ends in belongs to the prompt alone.
    complete = tiny_tokenizer().decode(prompt, skip_special_tokens=False).rstrip("\ufffd")
    assert len(complete) + len(given) >= len(whole.rstrip("\ufffd")) - 1


@pytest.mark.parametrize("factory", FACTORIES)
def test_half_a_character_in_the_prompt_does_not_repeat_the_prompt(factory):
    token_ids = encode("Say: 世")
    assert text_of(factory, token_ids[-1:], token_ids[:-1]) == "世"


@pytest.mark.parametrize("factory", FACTORIES)
def test_half_a_character_is_never_given_out(factory):
    assert text_of(factory, encode("ok 世")[:-1]) == "ok "


@pytest.mark.parametrize("factory", FACTORIES)
def test_bytes_that_are_no_character_do_not_pile_up(factory):
    stray = encode("世")[-1]
    text = text_of(factory, [stray] * 64 + encode("ok"))
    assert text.endswith("ok")
    assert len(text) > 60


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (DetokenizerOptions(), "a<think>b"),
        (SHOW, "a<|im_start|><think>b<|im_end|>"),
        (
            DetokenizerOptions(skip_special_tokens=False, spaces_between_special_tokens=False),
            "a<|im_start|><think>b<|im_end|>",
        ),
    ],
)
def test_special_tokens(options, expected):
    assert (
        text_of(tiny_detokenizers(), encode("a<|im_start|><think>b<|im_end|>"), (), options)
        == expected
    )


@pytest.mark.parametrize("factory", FACTORIES[:2])
def test_an_id_outside_the_vocabulary_has_no_text(factory):
    assert text_of(factory, [*encode("a"), -1, 10**6, 2**40, *encode("b")]) == "ab"
    assert factory.token_bytes(-1) == b""


@given(st.text(max_size=30))
def test_token_bytes_add_up_to_the_text(text):
    factory = tiny_detokenizers()
    joined = b"".join(factory.token_bytes(token_id) for token_id in encode(text))
    assert joined.decode() == tiny_tokenizer().normalizer.normalize_str(text)


def test_byte_level_alphabet_is_a_bijection():
    assert sorted(BYTE_LEVEL.values()) == list(range(256))


@pytest.mark.parametrize(
    ("piece", "decoder", "expected"),
    [
        ("Ġa", {"type": "ByteLevel"}, b" a"),
        ("▁a", {"type": "Metaspace"}, b" a"),
        ("##ing", {"type": "WordPiece", "prefix": "##"}, b"ing"),
        ("plain", {}, b"plain"),
    ],
)
def test_piece_bytes(piece, decoder, expected):
    assert piece_bytes(piece, decoder) == expected
