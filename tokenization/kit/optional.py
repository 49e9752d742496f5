"""The checks of what a tokenizer may offer: a chat template, a stream of tokens for training code, niceties.

Functions as in `contract.py`.
"""

from __future__ import annotations

import copy
import itertools
import re
import reprlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from .check import Subject, demand, same
from .samples import CONVERSATION, OTHER_STREAM, STREAM

ADDRESS = re.compile(r"0x[0-9a-f]{6,}")
MODEL = "model"


class Counted:
    """An iterator over texts that counts how many have been taken."""

    def __init__(self, texts: Iterable[str]) -> None:
        self._texts = iter(texts)
        self.taken = 0

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        text = next(self._texts)
        self.taken += 1
        return text


def stream_tokens(subject: Subject) -> str:
    """Demand an iterator of lists of str, one per text."""
    stream = subject.made(iter(STREAM))
    demand(
        iter(stream) is stream, f"a call returns {type(stream).__name__}; it has to be an iterator"
    )
    tokens = list(stream)
    demand(len(tokens) == len(STREAM), f"{len(tokens)} lists for {len(STREAM)} texts")
    for found in tokens:
        right = isinstance(found, list) and all(isinstance(token, str) for token in found)
        demand(right, f"{reprlib.repr(found)} is no list of str")
    return f"{sum(map(len, tokens))} tokens of {len(tokens)} texts"


def stream_lazy(subject: Subject) -> str:
    """Demand that a text is taken when its tokens are asked for, and not before."""
    texts = Counted(STREAM)
    stream = subject.made(texts)
    demand(not texts.taken, f"{texts.taken} texts are taken before any tokens are asked for")
    for number, _ in enumerate(stream, 1):
        demand(texts.taken == number, f"{texts.taken} texts are taken for {number} lists of tokens")
    demand(texts.taken == len(STREAM), f"{texts.taken} of {len(STREAM)} texts are taken")
    return "taken one by one"


def stream_order(subject: Subject) -> str:
    """Demand tokens in the order of their texts."""
    tokens = list(subject.made(iter(STREAM)))
    alone = [next(iter(subject.made([text]))) for text in STREAM]
    same(tokens, alone, "tokens of the stream, and of each text by itself")
    return f"{len(STREAM)} texts"


def stream_reentrant(subject: Subject) -> str:
    """Demand that a second call does not disturb the first."""
    alone = [list(subject.made(texts)) for texts in (STREAM, OTHER_STREAM)]
    streams = [subject.made(iter(texts)) for texts in (STREAM, OTHER_STREAM)]
    in_turns = zip(*itertools.zip_longest(*streams), strict=True)
    for tokens, expected, which in zip(in_turns, alone, ("first", "second"), strict=True):
        found = [item for item in tokens if item is not None]
        same(found, expected, f"tokens of the {which} of two streams, read in turns")
    return "two streams, read in turns"


def hidden(subject: Subject) -> str:
    """Demand that `skip_special_tokens` leaves out what `special_toks` says."""
    tokenizer, special = subject.tokenizer, subject.made.special_toks
    demand(
        isinstance(special, Sequence) and not isinstance(special, str),
        f"special_toks is {special!r}, no list",
    )
    demand(
        all(isinstance(token, str) for token in special),
        f"special_toks is {reprlib.repr(special)}, not of str",
    )
    single = [
        (token, token_ids) for token in special if len(token_ids := tokenizer.encode(token)) == 1
    ]
    for token, token_ids in single:
        same(tokenizer.decode(token_ids), "", f"decode of {token!r}, skipped")
    return f"{len(special)} special tokens, {len(single)} of them encoded as one id"


def readable(subject: Subject) -> str:
    """Demand a repr that names the class and shows no address."""
    shown = repr(subject.made)
    demand(type(subject.made).__name__ in shown, f"repr is {shown}, without the name of the class")
    demand(not ADDRESS.search(shown), f"repr is {shown}, with an address in memory")
    return shown


def template(subject: Subject) -> str:
    """Demand a prompt that holds the messages, of `apply_chat_template`."""
    return _prompts(subject, subject.made.apply_chat_template)


def prompt(subject: Subject) -> str:
    """Demand a prompt that holds the messages, of `tokenize`."""
    return _prompts(subject, subject.made.tokenize, model=MODEL)


def _prompts(subject: Subject, method: Callable[..., Any], **own: Any) -> str:
    conversation = copy.deepcopy(CONVERSATION)
    found = method(conversation, tools=None, **own)
    same(conversation, CONVERSATION, f"{method.__name__} changes the messages")
    same(method(conversation, tools=None, **own), found, f"{method.__name__}, the second time")
    kind = str if method.__name__ == "apply_chat_template" else list
    demand(
        isinstance(found, kind),
        f"{method.__name__} returns {reprlib.repr(found)}, no {kind.__name__}",
    )
    tokenizer = subject.tokenizer
    token_ids = tokenizer.encode(found) if isinstance(found, str) else found
    text = tokenizer.decode(token_ids, skip_special_tokens=False)
    for message in CONVERSATION:
        demand(message["content"] in text, f"the prompt {text!r} is without {message['content']!r}")
    return f"{len(token_ids)} tokens for {len(CONVERSATION)} messages"
