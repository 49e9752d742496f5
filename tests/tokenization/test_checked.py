"""Results and errors of a user's tokenizer behind `CheckedTokenizer`."""

import inspect
from functools import partial

import pytest
from backedge.parsers.errors import RequestError
from backedge.tokenization import TokenizerFailedError, TokenizerResultError, load
from backedge.tokenization.checked import CheckedTokenizer, accepts
from backedge.tokenization.detokenizer import DetokenizerOptions, detokenizers, read_vocabulary

from tests.tokenization.bad_modules import Wrong
from tests.tokenization.broken import RaisesLate

BAD = "tests.tokenization.bad_modules"
EXAMPLE = ("examples.my_tokenizer", "MyTokenizer")
HELLO = [{"role": "user", "content": "Hello"}]


@pytest.mark.parametrize(
    ("result", "shown"),
    [
        (["a", "b"], "list ['a', 'b']"),
        ((1, 2), "tuple (1, 2)"),
        ([1, -1], "list [1, -1]"),
        ([1, True], "list [1, True]"),
        ([1, 2.0], "list [1, 2.0]"),
        (None, "NoneType None"),
        (b"text", "bytes b'text'"),
    ],
)
def test_a_wrong_result_is_named(result, shown, monkeypatch):
    monkeypatch.setattr(Wrong, "result", result)
    tokenizer = load(BAD, "Wrong", "model")
    for method, argument in (("encode", "x"), ("encode_batch", ["x", "y", "z"]), ("decode", [1])):
        with pytest.raises(TokenizerResultError) as caught:
            getattr(tokenizer, method)(argument)
        assert str(caught.value).startswith(
            f"{BAD}:Wrong.{method} returned {shown}; its contract is "
        )
    with pytest.raises(TokenizerResultError, match="apply_chat_template returned"):
        tokenizer.prompt_token_ids(HELLO)


def test_a_batch_of_wrong_lists_is_named(monkeypatch):
    monkeypatch.setattr(Wrong, "result", [[1], ["a"]])
    with pytest.raises(TokenizerResultError, match=r"encode_batch returned list \['a'\]"):
        load(BAD, "Wrong", "model").encode_batch(["x", "y"])


def test_what_raises_late_is_named_with_its_cause():
    tokenizer = CheckedTokenizer("RaisesLate", RaisesLate("model"))
    for _ in range(999):
        assert tokenizer.decode([104]) == "h"
    with pytest.raises(
        TokenizerFailedError,
        match=r"RaisesLate.decode\(\[104\]\) raised RuntimeError: out of handles",
    ):
        tokenizer.decode([104])
    assert tokenizer.decode([104]) == "h"


def test_a_template_of_text_is_encoded():
    tokenizer = load(*EXAMPLE, "model")
    prompt = tokenizer.prompt_token_ids(HELLO, thinking=True) or []
    assert tokenizer.decode(prompt, skip_special_tokens=False) == (
        "<|im_start|>user\nHello<|im_end|>\n<|im_start|>assistant\n"
    )


def test_template_and_encoding_in_one_come_first():
    tokenizer = load(BAD, "Strict", "model")
    assert tokenizer.prompt_token_ids(HELLO, [{}, {}], model="abc", terse=True) == [1, 3, 2, 1]


def test_without_a_template_there_is_no_prompt():
    assert (
        load("tests.tokenization.examples", "WordTokenizer", "model").prompt_token_ids(HELLO)
        is None
    )


def test_what_a_template_refuses_is_the_fault_of_the_request():
    with pytest.raises(RequestError, match=r"`messages` is .*this model calls no tools"):
        load(*EXAMPLE, "model").prompt_token_ids(HELLO, [{"type": "function"}])
    with pytest.raises(
        RequestError,
        match=r"`chat_template_kwargs.verbose` is 1; allowed: the arguments of .*Strict\.tokenize, "
        r"which has no verbose\.",
    ):
        load(BAD, "Strict", "model").prompt_token_ids(HELLO, verbose=1)


def test_any_other_error_of_a_template_is_the_fault_of_the_class():
    with pytest.raises(TokenizerFailedError, match=r"apply_chat_template.*KeyError: 'role'"):
        load(*EXAMPLE, "model").prompt_token_ids([{"content": "x"}])


def test_works_wherever_a_tokenizer_does():
    tokenizer = load(*EXAMPLE, "model")
    stream = detokenizers(tokenizer)(DetokenizerOptions(), ())
    assert [stream.feed(token_id) for token_id in "é!".encode()] == ["", "é", "!"]
    assert read_vocabulary(tokenizer).ids["<|im_end|>"] == 257
    assert not hasattr(tokenizer, "is_tekken")


def test_a_batch_of_another_length_is_named():
    class Short:
        def encode_batch(self, texts):
            return [[1]]

    with pytest.raises(TokenizerResultError, match="its contract is a list of 2 lists of ids"):
        CheckedTokenizer("Short", Short()).encode_batch(["x", "y"])


@pytest.mark.parametrize(
    ("function", "accepted"),
    [
        (lambda messages, thinking: None, True),
        (lambda messages, *, thinking=False: None, True),
        (lambda messages, **options: None, True),
        (lambda messages: None, False),
        (lambda thinking, /: None, False),
        (lambda *thinking: None, False),
        (partial(lambda messages, effort, thinking: None, effort=1), True),
    ],
    ids=lambda value: str(inspect.signature(value)) if callable(value) else None,
)
def test_an_argument_is_accepted_by_name(function, accepted):
    assert accepts(function, "thinking") is accepted
