"""Results and errors of a user's tokenizer behind `CheckedTokenizer`."""

import inspect
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest
from backedge.base.errors import RequestError
from backedge.tokenization import TokenizerFailedError, TokenizerResultError, load
from backedge.tokenization.custom_tokenizer import CheckedTokenizer, accepts
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
    with pytest.raises(RequestError, match=r"`messages` is .*this model cannot call tools"):
        load(*EXAMPLE, "model").prompt_token_ids(HELLO, [{"type": "function"}])
    with pytest.raises(RequestError, match=r"kwargs.verbose` is not supported: .*has no argument"):
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


class Counting:
    """Notes how many threads are inside of it at once."""

    thread_safe: bool

    def __init__(self):
        self._inside = 0
        self.most = 0
        self._lock = threading.Lock()

    def _call(self, result):
        with self._lock:
            self._inside += 1
            self.most = max(self.most, self._inside)
        time.sleep(0.002)
        with self._lock:
            self._inside -= 1
        return result

    def encode(self, text):
        return self._call([1])

    def encode_batch(self, texts):
        return self._call([[1] for _ in texts])

    def decode(self, token_ids, skip_special_tokens=True):
        return self._call("x")

    def tokenize(self, messages, model, tools=None):
        return self._call([1])

    def of_its_own(self):
        return self._call(None)


CALLS = {
    "encode": lambda tokenizer: tokenizer.encode("x"),
    "encode_batch": lambda tokenizer: tokenizer.encode_batch(["x"]),
    "decode": lambda tokenizer: tokenizer.decode([1]),
    "tokenize": lambda tokenizer: tokenizer.prompt_token_ids(HELLO),
    "of_its_own": lambda tokenizer: tokenizer.of_its_own(),
}


def count_threads(inner):
    """Return how many of eight threads were inside of `inner` at once, by any of its methods."""
    tokenizer = CheckedTokenizer("Counting", inner)
    with ThreadPoolExecutor(8) as pool:
        for call in [*CALLS.values()] * 8:
            pool.submit(call, tokenizer)
    return inner.most


def test_threads_wait_for_each_other():
    assert count_threads(Counting()) == 1


@pytest.mark.parametrize("method", CALLS)
def test_a_thread_safe_class_is_called_by_several_threads_at_once(method):
    both = threading.Barrier(2, timeout=20)

    class ThreadSafe(Counting):
        thread_safe = True

        def _call(self, result):
            both.wait()  # passes only if two threads are here at once
            return result

    tokenizer = CheckedTokenizer("ThreadSafe", ThreadSafe())
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(CALLS[method], [tokenizer] * 2))


def test_a_tokenizer_may_call_itself_by_its_wrapper():
    class Recursive(Counting):
        def encode(self, text):
            return [*wrapper.encode(text[1:]), 1] if text else []

    wrapper = CheckedTokenizer("Recursive", Recursive())
    assert wrapper.encode("abc") == [1, 1, 1]
