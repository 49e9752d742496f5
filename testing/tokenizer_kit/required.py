"""The checks that every tokenizer must pass.

Each is a function that returns what it observed and raises `ContractError` if the contract is
broken.
"""

from __future__ import annotations

import contextlib
import importlib
import inspect
import reprlib
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from ...tokenization.detokenizer import DetokenizerOptions, detokenizers
from ...tokenization.errors import ContractError, NotInstalledError
from .check import TokenizerUnderTest, common_prefix_length, require, require_equal, wrap_checked
from .samples import CODE, CONVERSATION, EMOJI, LONG, MARKERS, MULTILINGUAL, SHORT

TEXTS = (*MULTILINGUAL, *EMOJI, *CODE)
CALLS = 2_000
THREADS, ROUNDS = 8, 10
REPETITIONS = 3
# Short enough that threads switch inside a call; Python's default of 5 ms would hide most races.
SWITCH_INTERVAL_S = 1e-5

# Arguments that each method must accept, by position and by name.
SIGNATURES: dict[str, tuple[tuple[object, ...], dict[str, object]]] = {
    "encode": (("text",), {}),
    "encode_batch": ((["text"],), {}),
    "decode": (([0],), {"skip_special_tokens": True}),
    "apply_chat_template": ((CONVERSATION,), {"tools": None}),
    "tokenize": ((CONVERSATION,), {"model": "m", "tools": None}),
}
OPTIONAL_METHODS = ("apply_chat_template", "tokenize")


def signatures(target: TokenizerUnderTest) -> str:
    """Require that every method accepts the contract's arguments."""
    present = [
        name
        for name in SIGNATURES
        if name not in OPTIONAL_METHODS or hasattr(target.instance, name)
    ]
    for name in present:
        check_signature(target, name)
    return ", ".join(present)


def check_signature(target: TokenizerUnderTest, name: str) -> None:
    """Require a method that accepts the contract's arguments, and has its default."""
    method = getattr(target.instance, name, None)
    require(callable(method), f"{type(target.instance).__name__} has no method {name}")
    args, kwargs = SIGNATURES[name]
    signature = inspect.signature(method)  # type: ignore[arg-type]  # it is callable
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        raise ContractError(f"{name}{signature}: {error}") from error
    skip = signature.parameters.get("skip_special_tokens")
    require(
        skip is None or skip.default is True, f"{name}: skip_special_tokens must default to True"
    )


def results(target: TokenizerUnderTest) -> str:
    """Require results of the contract's types."""
    tokenizer = target.tokenizer
    token_ids = tokenizer.encode(SHORT)
    tokenizer.encode_batch([SHORT, SHORT])
    tokenizer.decode(token_ids)
    return f"{len(token_ids)} tokens for {len(SHORT)} characters"


def endurance(target: TokenizerUnderTest) -> str:
    """Require equal results from many calls."""
    tokenizer = target.tokenizer
    token_ids = tokenizer.encode(SHORT)
    text = tokenizer.decode(token_ids)
    for number in range(2, CALLS + 1):
        require_equal(tokenizer.encode(SHORT), token_ids, f"encode, call {number}")
        require_equal(tokenizer.decode(token_ids), text, f"decode, call {number}")
    return f"{CALLS} calls of encode and decode"


def empty(target: TokenizerUnderTest) -> str:
    """Require empty output for empty input: no BOS or EOS."""
    tokenizer = target.tokenizer
    require_equal(tokenizer.encode(""), [], 'encode("")')
    require_equal(tokenizer.encode_batch([]), [], "encode_batch([])")
    require_equal(tokenizer.decode([]), "", "decode([])")
    return ""


def round_trip(*texts: str) -> Callable[[TokenizerUnderTest], str]:
    """Return the check that `decode` restores each of `texts`, with special tokens shown."""

    def check(target: TokenizerUnderTest) -> str:
        tokenizer = target.tokenizer
        for text in texts:
            token_ids = tokenizer.encode(text)
            require_equal(
                tokenizer.decode(token_ids, skip_special_tokens=False), text, "decode(encode(text))"
            )
        return (
            f"{len(texts)} texts"
            if len(texts) > 1
            else f"{len(token_ids):,} tokens for {len(text):,} characters"
        )

    return check


def special_tokens(target: TokenizerUnderTest) -> str:
    """Require that special tokens in a text are kept."""
    own = getattr(target.instance, "special_toks", ())
    texts = [f"a {token} b" for token in (*MARKERS, *own)]
    return round_trip(*texts)(target)


def batch(target: TokenizerUnderTest) -> str:
    """Require that encode_batch gives the results of encode, in the same order."""
    tokenizer = target.tokenizer
    texts = [*TEXTS, "", SHORT]
    for text, token_ids in zip(texts, tokenizer.encode_batch(texts), strict=True):
        require_equal(token_ids, tokenizer.encode(text), f"encode_batch, at {reprlib.repr(text)}")
    return f"{len(texts)} texts"


def incremental(target: TokenizerUnderTest) -> str:
    """Require that decoding token by token, as in a stream, gives the text of decode."""
    tokenizer = target.tokenizer
    factory = detokenizers(tokenizer)
    steps = 0
    for text in TEXTS:
        token_ids = tokenizer.encode(text)
        for skip, cut in ((True, 0), (False, 0), (True, len(token_ids) // 2)):
            whole = tokenizer.decode(token_ids, skip_special_tokens=skip)
            before = tokenizer.decode(token_ids[:cut], skip_special_tokens=skip)
            # If the prompt ends within a character, the character belongs to the output.
            before = before[: common_prefix_length(before, whole)]
            stream = factory(DetokenizerOptions(skip_special_tokens=skip), token_ids[:cut])
            require_equal(
                "".join(map(stream.feed, token_ids[cut:])),
                whole[len(before) :],
                "decoded token by token",
            )
            steps += len(token_ids) - cut
    return f"{steps:,} steps by {type(factory).__name__}"


def independent(target: TokenizerUnderTest) -> str:
    """Require that a call does not depend on earlier calls."""
    tokenizer = target.tokenizer
    first = [tokenizer.encode(text) for text in TEXTS]
    for text, token_ids in zip(reversed(TEXTS), reversed(first), strict=True):
        require_equal(tokenizer.encode(text), token_ids, f"encode({reprlib.repr(text)}) again")
    return f"{len(TEXTS)} texts, forwards and backwards"


@contextlib.contextmanager
def frequent_switching() -> Iterator[None]:
    """Let threads switch far more often than by default."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


def threads(target: TokenizerUnderTest) -> str:
    """Require that concurrent threads get the results of a single thread."""
    tokenizer = target.tokenizer
    expected = {
        text: (ids := tokenizer.encode(text), tokenizer.decode(ids)) for text in (*TEXTS, SHORT)
    }
    barrier = threading.Barrier(THREADS)

    def call_all(number: int) -> None:
        barrier.wait()
        # Each thread starts at another text, so they work on different ones at any moment.
        rotated = [*expected.items()][number:] + [*expected.items()][:number]
        for text, (token_ids, decoded) in rotated * ROUNDS:
            require_equal(tokenizer.encode(text), token_ids, f"encode in {THREADS} threads")
            require_equal(tokenizer.decode(token_ids), decoded, f"decode in {THREADS} threads")

    with frequent_switching(), ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(call_all, range(THREADS)))
    calls = f"{THREADS * ROUNDS * len(expected):,} calls each of encode and decode"
    if getattr(target.instance, "thread_safe", False) is True:
        return f"{THREADS} threads at once, {calls}"
    return f"{THREADS} threads, one after the other since thread_safe is not True, {calls}"


def pickled_copy(package: str) -> Callable[[TokenizerUnderTest], str]:
    """Return the check that a copy pickled with `package` gives equal results."""

    def check(target: TokenizerUnderTest) -> str:
        unpickled, result = copy_by(package, target.instance)
        if unpickled is None:
            return result
        tokenizer, copy = target.tokenizer, wrap_checked(unpickled)
        for text in (*TEXTS, *MARKERS):
            token_ids = tokenizer.encode(text)
            require_equal(copy.encode(text), token_ids, f"encode of the copy by {package}")
            require_equal(
                copy.decode(token_ids),
                tokenizer.decode(token_ids),
                f"decode of the copy by {package}",
            )
        return result

    return check


def copy_by(package: str, instance: object) -> tuple[Any, str]:
    """Pickle `instance` with `package`; return the copy and the size of the pickle.

    If pickle cannot, return None and the reason: training code copies with dill.
    """
    try:
        pickler = importlib.import_module(package)
    except ImportError as error:
        raise NotInstalledError(
            f"{package} is not installed, which this check needs; pip install '.[kit]' in a "
            "checkout of Backedge"
        ) from error
    try:
        pickled = pickler.dumps(instance)
        return pickler.loads(pickled), f"{len(pickled):,} bytes"
    except Exception as error:  # pickling runs code of the class
        if package == "pickle":
            return None, f"dill is needed ({type(error).__name__}: {error})"
        raise ContractError(f"{package}: {type(error).__name__}: {error}") from error


def construction(target: TokenizerUnderTest) -> str:
    """Require that a further instance costs no more than encoding a document."""
    tokenizer = target.tokenizer
    return compare_construction(target, lambda: tokenizer.encode(LONG))


def compare_construction(target: TokenizerUnderTest, tokenize: Callable[[], object]) -> str:
    """Require that a further instance costs no more than to `tokenize` a document.

    The existing first instance may have loaded what all instances share.
    """
    construct_s, tokenize_s = measure(target.factory), measure(tokenize)
    took = f"{construct_s * 1e3:.1f} ms, and tokenizing {len(LONG):,} characters"
    took += f" {tokenize_s * 1e3:.1f} ms"
    require(
        construct_s <= tokenize_s,
        f"a further instance takes {took}; load large data once per process, or on first use",
    )
    return took


def measure(function: Callable[[], object]) -> float:
    """Return the shortest of a few run times of `function`, in seconds."""
    times = []
    for _ in range(REPETITIONS):
        started = time.perf_counter()
        function()
        times.append(time.perf_counter() - started)
    return min(times)
