"""The checks that every tokenizer has to pass.

Each is a function that returns what it saw and raises `ContractError` for what is wrong.
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

from ..detokenizer import DetokenizerOptions, detokenizers
from ..errors import ContractError
from .check import Subject, demand, guarded, parting, same
from .samples import CODE, CONVERSATION, EMOJI, LONG, MARKERS, MULTILINGUAL, SHORT

TEXTS = (*MULTILINGUAL, *EMOJI, *CODE)
CALLS = 2_000
THREADS, ROUNDS = 8, 10
# So short that threads take turns inside a call; Python's own 5 ms would hide most races.
SWITCH_INTERVAL_S = 1e-5

# Each is called with these, and with these names.
SIGNATURES: dict[str, tuple[tuple[Any, ...], dict[str, Any]]] = {
    "encode": (("text",), {}),
    "encode_batch": ((["text"],), {}),
    "decode": (([0],), {"skip_special_tokens": True}),
    "apply_chat_template": ((CONVERSATION,), {"tools": None}),
    "tokenize": ((CONVERSATION,), {"model": "m", "tools": None}),
}
OPTIONAL_METHODS = ("apply_chat_template", "tokenize")


def signatures(subject: Subject) -> str:
    """Demand that every method takes its arguments by the contract's names."""
    present = [
        name for name in SIGNATURES if name not in OPTIONAL_METHODS or hasattr(subject.made, name)
    ]
    for name in present:
        method = getattr(subject.made, name, None)
        demand(callable(method), f"{type(subject.made).__name__} has no method {name}")
        args, kwargs = SIGNATURES[name]
        signature = inspect.signature(method)  # type: ignore[arg-type]  # callable, as demanded
        try:
            signature.bind(*args, **kwargs)
        except TypeError as error:
            raise ContractError(f"{name}{signature}: {error}") from error
    skip = inspect.signature(subject.made.decode).parameters.get("skip_special_tokens")
    demand(skip is None or skip.default is True, "decode: skip_special_tokens is True unless given")
    return ", ".join(present)


def results(subject: Subject) -> str:
    """Demand results of the contract's types."""
    tokenizer = subject.tokenizer
    token_ids = tokenizer.encode(SHORT)
    tokenizer.encode_batch([SHORT, SHORT])
    tokenizer.decode(token_ids)
    return f"{len(token_ids)} tokens for {len(SHORT)} characters"


def endurance(subject: Subject) -> str:
    """Demand the same result of many calls."""
    tokenizer = subject.tokenizer
    token_ids = tokenizer.encode(SHORT)
    text = tokenizer.decode(token_ids)
    for number in range(2, CALLS + 1):
        same(tokenizer.encode(SHORT), token_ids, f"encode, call {number}")
        same(tokenizer.decode(token_ids), text, f"decode, call {number}")
    return f"{CALLS} calls of encode and decode"


def empty(subject: Subject) -> str:
    """Demand nothing out for nothing in: no BOS or EOS."""
    tokenizer = subject.tokenizer
    same(tokenizer.encode(""), [], 'encode("")')
    same(tokenizer.encode_batch([]), [], "encode_batch([])")
    same(tokenizer.decode([]), "", "decode([])")
    return ""


def round_trip(*texts: str) -> Callable[[Subject], str]:
    """Return the check that `decode` gives each of `texts` back, special tokens shown."""

    def check(subject: Subject) -> str:
        tokenizer = subject.tokenizer
        for text in texts:
            token_ids = tokenizer.encode(text)
            same(
                tokenizer.decode(token_ids, skip_special_tokens=False), text, "decode(encode(text))"
            )
        return (
            f"{len(texts)} texts"
            if len(texts) > 1
            else f"{len(token_ids):,} tokens for {len(text):,} characters"
        )

    return check


def special_tokens(subject: Subject) -> str:
    """Demand that special tokens in a text are kept."""
    own = getattr(subject.made, "special_toks", ())
    texts = [f"a {token} b" for token in (*MARKERS, *own)]
    return round_trip(*texts)(subject)


def batch(subject: Subject) -> str:
    """Demand of encode_batch what encode gives, in the same order."""
    tokenizer = subject.tokenizer
    texts = [*TEXTS, "", SHORT]
    for text, token_ids in zip(texts, tokenizer.encode_batch(texts), strict=True):
        same(token_ids, tokenizer.encode(text), f"encode_batch, at {reprlib.repr(text)}")
    return f"{len(texts)} texts"


def incremental(subject: Subject) -> str:
    """Demand the text that decode gives of one that is decoded token by token, as a stream is."""
    tokenizer = subject.tokenizer
    factory = detokenizers(tokenizer)
    steps = 0
    for text in TEXTS:
        token_ids = tokenizer.encode(text)
        for skip, cut in ((True, 0), (False, 0), (True, len(token_ids) // 2)):
            whole = tokenizer.decode(token_ids, skip_special_tokens=skip)
            before = tokenizer.decode(token_ids[:cut], skip_special_tokens=skip)
            # Where the cut is in the middle of a character, that belongs to what comes after it.
            before = before[: parting(before, whole)]
            stream = factory(DetokenizerOptions(skip_special_tokens=skip), token_ids[:cut])
            same(
                "".join(map(stream.feed, token_ids[cut:])),
                whole[len(before) :],
                "decoded token by token",
            )
            steps += len(token_ids) - cut
    return f"{steps:,} steps by {type(factory).__name__}"


def independent(subject: Subject) -> str:
    """Demand that a call does not depend on those before it."""
    tokenizer = subject.tokenizer
    first = [tokenizer.encode(text) for text in TEXTS]
    for text, token_ids in zip(reversed(TEXTS), reversed(first), strict=True):
        same(tokenizer.encode(text), token_ids, f"encode({reprlib.repr(text)}) again")
    return f"{len(TEXTS)} texts, there and back"


@contextlib.contextmanager
def eager_switching() -> Iterator[None]:
    """Let threads take turns far more often than they do."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


def threads(subject: Subject) -> str:
    """Demand for threads at once what one alone gets."""
    tokenizer = subject.tokenizer
    expected = {
        text: (ids := tokenizer.encode(text), tokenizer.decode(ids)) for text in (*TEXTS, SHORT)
    }
    together = threading.Barrier(THREADS)

    def work(number: int) -> None:
        together.wait()
        # Each begins elsewhere, so that at any moment they are at different texts.
        turned = [*expected.items()][number:] + [*expected.items()][:number]
        for text, (token_ids, decoded) in turned * ROUNDS:
            same(tokenizer.encode(text), token_ids, f"encode in {THREADS} threads")
            same(tokenizer.decode(token_ids), decoded, f"decode in {THREADS} threads")

    with eager_switching(), ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(work, range(THREADS)))
    return (
        f"{THREADS} threads, {THREADS * ROUNDS * len(expected):,} calls each of encode and decode"
    )


def copied(package: str) -> Callable[[Subject], str]:
    """Return the check that an instance, pickled by `package`, comes back equal."""

    def check(subject: Subject) -> str:
        pickler = importlib.import_module(package)
        try:
            pickled = pickler.dumps(subject.made)
            copy_ = guarded(pickler.loads(pickled))
        except Exception as error:  # pickling raises whatever the class does
            raise ContractError(f"{package}: {type(error).__name__}: {error}") from error
        tokenizer = subject.tokenizer
        for text in (*TEXTS, *MARKERS):
            token_ids = tokenizer.encode(text)
            same(copy_.encode(text), token_ids, f"encode of the copy by {package}")
            same(
                copy_.decode(token_ids),
                tokenizer.decode(token_ids),
                f"decode of the copy by {package}",
            )
        return f"{len(pickled):,} bytes"

    return check


def construction(subject: Subject) -> str:
    """Report how long construction takes beside encoding; no time makes it fail."""
    tokenizer = subject.tokenizer
    started = time.perf_counter()
    subject.factory()
    constructed = time.perf_counter()
    tokenizer.encode(LONG)
    construct_s, encode_s = constructed - started, time.perf_counter() - constructed
    ratio = f"{construct_s / encode_s:.2g}" if encode_s else "?"
    return f"{construct_s * 1e3:.1f} ms, {ratio} times what encoding {len(LONG):,} characters takes"
