"""The checks of optional features: a template, a stream of tokens, decode, `special_toks`, repr.

Each is a function that returns what it observed and raises `ContractError` if the contract is
broken.
"""

from __future__ import annotations

import copy
import itertools
import re
import reprlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ...tokenization.errors import ContractError, describe_error
from .check import TokenizerUnderTest, require, require_equal
from .required import CALLS, check_signature, compare_construction, copy_by
from .samples import CONVERSATION, LONG, OTHER_STREAM, STREAM

ADDRESS = re.compile(r"0x[0-9a-f]{6,}")
MODEL = "model"


def stream_tokens(target: TokenizerUnderTest) -> str:
    """Require an iterator of lists of str, one per text."""
    stream = target.instance(iter(STREAM))
    require(
        iter(stream) is stream, f"a call returns {type(stream).__name__}; it must be an iterator"
    )
    tokens = list(stream)
    require(len(tokens) == len(STREAM), f"{len(tokens)} lists for {len(STREAM)} texts")
    for found in tokens:
        right = isinstance(found, list) and all(isinstance(token, str) for token in found)
        require(right, f"{reprlib.repr(found)} is not a list of str")
    return f"{sum(map(len, tokens))} tokens of {len(tokens)} texts"


def stream_lazy(target: TokenizerUnderTest) -> str:
    """Require that a text is taken only when its tokens are requested."""
    taken: list[str] = []

    def take() -> Iterator[str]:
        for text in STREAM:
            taken.append(text)
            yield text

    stream = target.instance(take())
    require(not taken, f"{len(taken)} texts are taken before any tokens are requested")
    for number, _ in enumerate(stream, 1):
        require(len(taken) == number, f"{len(taken)} texts are taken for {number} lists of tokens")
    require(len(taken) == len(STREAM), f"{len(taken)} of {len(STREAM)} texts are taken")
    return "taken one by one"


def stream_order(target: TokenizerUnderTest) -> str:
    """Require each text's own tokens, in order, and after many texts of the same length."""
    tokens = list(target.instance(iter(STREAM)))
    alone = [next(iter(target.instance([text]))) for text in STREAM]
    require_equal(tokens, alone, "tokens of the stream, and of each text alone")
    texts = [f"{first}, then {second}" for first in ("alpha", "gamma") for second in ("one", "six")]
    fresh: list[Any] = [target.factory() for _ in texts]
    alone = [next(iter(new([text]))) for new, text in zip(fresh, texts, strict=True)]
    # New instances may share what their class keeps.
    require(alone[0] != alone[-1], f"{texts[0]!r} and {texts[-1]!r} have equal tokens, {alone[0]}")
    stream = target.instance(itertools.islice(itertools.cycle(texts), CALLS))
    for number, (found, expected) in enumerate(zip(stream, itertools.cycle(alone), strict=False)):
        text = texts[number % len(texts)]
        require_equal(found, expected, f"tokens of text {number + 1}, {text!r}, and of it alone")
    return f"{len(STREAM)} texts, and {CALLS:,} more"


def stream_reentrant(target: TokenizerUnderTest) -> str:
    """Require that a second call does not disturb the first."""
    alone = [list(target.instance(texts)) for texts in (STREAM, OTHER_STREAM)]
    streams = [target.instance(iter(texts)) for texts in (STREAM, OTHER_STREAM)]
    in_turns = zip(*itertools.zip_longest(*streams), strict=True)
    for tokens, expected, which in zip(in_turns, alone, ("first", "second"), strict=True):
        found = [item for item in tokens if item is not None]
        require_equal(found, expected, f"tokens of the {which} of two streams, read in turns")
    return "two streams, read in turns"


def streaming_copy(package: str) -> Callable[[TokenizerUnderTest], str]:
    """Return the check that a copy pickled with `package` gives equal tokens."""

    def check(target: TokenizerUnderTest) -> str:
        copied, result = copy_by(package, target.instance)
        if copied is None:
            return result
        require(callable(copied), f"{package}: the copy cannot be called")
        tokens, expected = list(copied(STREAM)), list(target.instance(STREAM))
        require_equal(tokens, expected, f"tokens of the copy by {package}")
        return result

    return check


def streaming_construction(target: TokenizerUnderTest) -> str:
    """Require that a further instance costs no more than tokenizing a document."""
    return compare_construction(target, lambda: list(target.instance([LONG])))


def streaming_decode(target: TokenizerUnderTest) -> str:
    """Require a `decode` that takes the contract's arguments and gives text."""
    check_signature(target, "decode")
    require_equal(target.tokenizer.decode([]), "", "decode([])")
    return "arguments, and no text for no tokens"


def special_toks(target: TokenizerUnderTest) -> str:
    """Require a list of str, and that `skip_special_tokens` hides those that are one id."""
    tokenizer, special = target.tokenizer, target.instance.special_toks
    require(
        isinstance(special, Sequence) and not isinstance(special, str),
        f"special_toks is {special!r}, not a list",
    )
    require(
        all(isinstance(token, str) for token in special),
        f"special_toks is {reprlib.repr(special)}, not of str",
    )
    if not hasattr(target.instance, "encode"):
        return f"{len(special)} special tokens"
    single = [
        (token, token_ids) for token in special if len(token_ids := tokenizer.encode(token)) == 1
    ]
    for token, token_ids in single:
        require_equal(tokenizer.decode(token_ids), "", f"decode of {token!r}, skipped")
    return f"{len(special)} special tokens, {len(single)} of them encoded as one id"


def readable_repr(target: TokenizerUnderTest) -> str:
    """Return the repr, or what could be better about it, which breaks nothing."""
    try:
        shown = repr(target.instance)
    except Exception as error:  # noqa: BLE001 - a user's class may raise anything
        return f"to improve: repr raises {describe_error(error)}"
    if type(target.instance).__name__ not in shown:
        return f"to improve: repr is {shown}, without the name of the class"
    if ADDRESS.search(shown):
        return f"to improve: repr is {shown}, with an address in memory"
    return shown


def template(target: TokenizerUnderTest) -> str:
    """Require that the prompt of `apply_chat_template` contains all messages."""
    text = _call_twice(target.instance.apply_chat_template)
    if not isinstance(text, str):
        raise ContractError(f"apply_chat_template returns {reprlib.repr(text)}, not a str")
    return _check_prompt(target, target.tokenizer.encode(text))


def prompt(target: TokenizerUnderTest) -> str:
    """Require that the prompt of `tokenize` contains all messages."""
    token_ids = _call_twice(target.instance.tokenize, model=MODEL)
    if not isinstance(token_ids, list):
        raise ContractError(f"tokenize returns {reprlib.repr(token_ids)}, not a list")
    return _check_prompt(target, token_ids)


def _call_twice(method: Callable[..., object], **options: object) -> object:
    """Return the result for `CONVERSATION`; require that a second call gives the same."""
    conversation = copy.deepcopy(CONVERSATION)
    first = method(conversation, tools=None, **options)
    require_equal(conversation, CONVERSATION, f"{method.__name__} changes the messages")
    second = method(conversation, tools=None, **options)
    require(
        first == second,
        f"{method.__name__} returns {reprlib.repr(first)}, then {reprlib.repr(second)}",
    )
    return first


def _check_prompt(target: TokenizerUnderTest, token_ids: list[int]) -> str:
    text = target.tokenizer.decode(token_ids, skip_special_tokens=False)
    for message in CONVERSATION:
        require(message["content"] in text, f"the prompt {text!r} lacks {message['content']!r}")
    return f"{len(token_ids)} tokens for {len(CONVERSATION)} messages"
