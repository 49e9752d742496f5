"""Finds where a text can be cut so that its parts have the token ids of the whole, in order.

`tokenizers` first searches the unchanged text for added tokens, from left to right, the longest
one at each position. The text between two of them is normalized, split and tokenized separately.
So a text can be cut before an added token if

- the token is found there in any text: it is searched before normalization, it is part of no other
  token, and its beginning is the end of no other token;
- the token does not extend or look to the left (`lstrip`, `single_word`), and nothing on its left
  extends into it: it begins with punctuation, neither a space nor a letter.

Every part but the first then begins with a token. This matters for tokenizers that treat the
beginning of a text specially, such as Metaspace with the prepend scheme "first": the text after
that token is not at the beginning, neither in the part nor in the whole.

A tokenizer is used only if all its steps are known to work this way (settings and kinds of steps
are compared with lists, so unknown steps of later versions are not trusted), and if a test text
with difficult neighbours of each token has the same ids whole and in parts.
"""

from __future__ import annotations

import re
import string
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Protocol

import msgspec
from tokenizers import AddedToken, Tokenizer

from ..base.errors import BackedgeError
from ..base.limits import (
    MAX_ADDED_CHARACTERS,
    MAX_ADDED_TOGETHER,
    MAX_CUT_TOKENS,
    MAX_TOKEN_CHARACTERS,
)

FIRST_CHARACTERS = frozenset(string.punctuation) - {"_"}
NORMALIZERS = frozenset(
    "BertNormalizer ByteLevel Lowercase NFC NFD NFKC NFKD Nmt Precompiled Prepend Replace "
    "Sequence Strip StripAccents".split()
)
PRE_TOKENIZERS = frozenset(
    "BertPreTokenizer ByteLevel CharDelimiterSplit Delimiter Digits FixedLength Metaspace "
    "Punctuation Sequence Split UnicodeScripts Whitespace WhitespaceSplit".split()
)
POST_PROCESSORS = frozenset(
    {"BertProcessing", "ByteLevel", "RobertaProcessing", "Sequence", "TemplateProcessing"}
)
MODELS = frozenset({"BPE", "Unigram", "WordLevel", "WordPiece"})
# Attributes of models that tokenize the same text differently each time.
RANDOM = ("dropout", "alpha", "nbest_size")
# Texts around each token in the check: spaces, letters, combining marks, other forms of a letter,
# digits, the marks of SentencePiece.
NEIGHBOURS = (
    "a{}b",
    " a {} b ",
    "A\n{}\n\nB",
    "1{}2",
    "{}{} ",
    "\u0338e{}\u0301 x",
    "\uff21{}\u2581x{}",
)
# Number of other added tokens placed next to the tokens in the check.
MAX_BESIDE = 64


class NoCutsError(BackedgeError):
    """It cannot be proved that a tokenizer's texts can be cut. reason: why."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(f"a text cannot be tokenized in parts: {reason}.")


class Component(Protocol):
    """A step of a tokenizer."""

    def __getstate__(self) -> bytes:
        """Return its JSON. Raises an exception for a step written in Python."""


class TokenizerStep(msgspec.Struct, frozen=True):
    """The JSON of a step. single: how a `TemplateProcessing` arranges one text."""

    type: str
    normalizers: tuple[TokenizerStep, ...] = ()
    pretokenizers: tuple[TokenizerStep, ...] = ()
    processors: tuple[TokenizerStep, ...] = ()
    single: tuple[dict[str, object], ...] = ()


class CutPoints:
    """Cuts texts before some tokens. tokens: no token is part of another."""

    def __init__(self, tokens: Iterable[str]) -> None:
        self.tokens = sorted(tokens)
        # One pattern per first character: a search for a single one is several times as fast.
        self._patterns = [
            re.compile(_alternatives(list(group)))
            for _, group in groupby(self.tokens, lambda token: token[0])
        ]

    def split(self, text: str, least: int) -> list[str]:
        """Return the parts of `text`.

        least: minimum length of all parts but the last. Each ends before the first token after
        that length, so texts with the same beginning have the same parts.
        """
        parts: list[str] = []
        start = 0
        found = [-1] * len(self._patterns)
        while (end := self._find(text, start + least, found)) < len(text):
            parts.append(text[start:end])
            start = end
        parts.append(text[start:])
        return parts

    def _find(self, text: str, wanted: int, found: list[int]) -> int:
        """Return the first cut at or after `wanted`, or the text's length.

        found: each pattern's last match; no pattern reads a part of the text twice.
        """
        for number, pattern in enumerate(self._patterns):
            if found[number] < wanted:
                match = pattern.search(text, wanted)
                found[number] = match.start() if match else len(text)
        return min(found)


def find_cut_points(tokenizer: Tokenizer) -> CutPoints:
    """Return where texts can be cut for `tokenizer`. Raises `NoCutsError`."""
    _check_settings(tokenizer)
    _check_steps(tokenizer)
    added = tokenizer.get_added_tokens_decoder()
    lengths = [len(token.content) for token in added.values()]
    if max(lengths, default=0) > MAX_ADDED_CHARACTERS or sum(lengths) > MAX_ADDED_TOGETHER:
        raise NoCutsError("its added tokens are too long")
    tokens = select_tokens(added)
    if not tokens:
        raise NoCutsError("it has no added token that is found in any text")
    cuts = CutPoints(tokens)
    _check_ids(tokenizer, cuts, [token.content for token in added.values()])
    return cuts


def select_tokens(added: Mapping[int, AddedToken]) -> list[str]:
    """Return the tokens before which a text can be cut; see the module's docstring."""
    contents = {token.content for token in added.values()}
    candidates = list(filter(_stands_alone, added.values()))
    inner = _find_inner(contents, {len(token.content) for token in candidates})
    ends = {content[at:] for content in contents for at in range(1, len(content))}
    chosen = [
        token
        for token in sorted(candidates, key=_rank)
        if token.content not in inner
        and ends.isdisjoint(token.content[:at] for at in range(1, len(token.content)))
    ]
    return [token.content for token in chosen[:MAX_CUT_TOKENS]]


def _stands_alone(token: AddedToken) -> bool:
    """Whether the text on the left does not change how a token is found."""
    if token.normalized or token.lstrip or token.single_word:
        return False
    return len(token.content) <= MAX_TOKEN_CHARACTERS and token.content[0] in FIRST_CHARACTERS


def _rank(token: AddedToken) -> tuple[bool, bool]:
    return any(map(str.isdigit, token.content)), not token.special


def _find_inner(contents: Iterable[str], lengths: Iterable[int]) -> set[str]:
    """Return the proper parts of all `contents` that have one of these lengths."""
    return {
        content[at : at + length]
        for content in contents
        for length in lengths
        if length < len(content)
        for at in range(len(content) - length + 1)
    }


def _alternatives(tokens: Sequence[str]) -> str:
    """Return a pattern of sorted tokens that reads each character once."""
    branches = []
    for first, group in groupby(tokens, lambda token: token[:1]):
        rests = [token[1:] for token in group]
        branches.append(re.escape(first) + (_alternatives(rests) if first else ""))
    return branches[0] if len(branches) == 1 else f"(?:{'|'.join(branches)})"


def _check_settings(tokenizer: Tokenizer) -> None:
    for name in ("truncation", "padding"):
        if getattr(tokenizer, name) is not None:
            raise NoCutsError(f"its {name} is on")
    if tokenizer.encode_special_tokens:
        raise NoCutsError("it reads special tokens as text")
    model = tokenizer.model
    kind = type(model).__name__
    if kind not in MODELS:
        raise NoCutsError(f"its model {kind} is unknown")
    for name in RANDOM:
        if getattr(model, name, None):
            raise NoCutsError(f"its model is random ({name})")


def _check_steps(tokenizer: Tokenizer) -> None:
    _check_kinds("normalizer", tokenizer.normalizer, NORMALIZERS)
    _check_kinds("pre-tokenizer", tokenizer.pre_tokenizer, PRE_TOKENIZERS)
    for step in _check_kinds("post-processor", tokenizer.post_processor, POST_PROCESSORS):
        if (
            step.type == "TemplateProcessing"
            and sum("Sequence" in part for part in step.single) != 1
        ):
            raise NoCutsError("its post-processor does not write a text once")


def _check_kinds(
    name: str, component: Component | None, known: frozenset[str]
) -> list[TokenizerStep]:
    """Return all steps within a component. Raises `NoCutsError` for an unknown one."""
    if component is None:
        return []
    try:
        step = msgspec.json.decode(component.__getstate__(), type=TokenizerStep)
    except Exception as error:
        # The binding raises a bare Exception for a step written in Python.
        raise NoCutsError(f"its {name} is not one of tokenizers' own") from error
    steps = list(_walk(step))
    for inner in steps:
        if inner.type not in known:
            raise NoCutsError(f"its {name} {inner.type} is unknown")
    return steps


def _walk(step: TokenizerStep) -> Iterator[TokenizerStep]:
    yield step
    for inner in (*step.normalizers, *step.pretokenizers, *step.processors):
        yield from _walk(inner)


def _check_ids(tokenizer: Tokenizer, cuts: CutPoints, contents: Sequence[str]) -> None:
    """Raise `NoCutsError` if a text of all cut points has other ids in parts than whole."""
    texts = [
        neighbours.format(*[token] * neighbours.count("{}"))
        for token in cuts.tokens
        for neighbours in NEIGHBOURS
    ]
    texts += [
        f"{other}{token}{other} {token} {other} "
        for token in cuts.tokens[:MAX_BESIDE]
        for other in contents[:MAX_BESIDE]
    ]
    text = "".join(texts)
    whole, *parts = tokenizer.encode_batch_fast(
        [text, *cuts.split(text, 1)], add_special_tokens=False
    )
    if whole.ids != [token_id for part in parts for token_id in part.ids]:
        raise NoCutsError("a text has other ids in parts than as a whole")
