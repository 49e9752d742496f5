"""Tokenizers that break the contract, each in one way."""

from __future__ import annotations

import copyreg
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, ClassVar, NamedTuple

from backedge.testing.tokenizer_kit import passed, run
from backedge.testing.tokenizer_kit.samples import LONG

from examples.my_tokenizer import BYTES, MyTokenizer
from tests.tokenization.examples import StreamsOnly

# So many that a busy machine cannot hide it.
TIMES_SLOWER = 40


class GivesStrings(MyTokenizer):
    def encode(self, text: str) -> Any:
        return list(text)


class NoSkip(MyTokenizer):
    def decode(self, token_ids: Sequence[int]) -> str:  # type: ignore[override]  # is what is broken
        return super().decode(token_ids, False)


class ShowsByDefault(MyTokenizer):
    def decode(self, token_ids: Sequence[int], skip_special_tokens: bool = False) -> str:
        return super().decode(token_ids, skip_special_tokens)


class RaisesLate(MyTokenizer):
    calls = 0

    def decode(self, token_ids: Sequence[int], skip_special_tokens: bool = True) -> str:
        self.calls += 1
        if self.calls == 1_000:
            raise RuntimeError("out of handles")
        return super().decode(token_ids, skip_special_tokens)


class AddsBos(MyTokenizer):
    # Skipped when decoded, so that every text comes back nevertheless.
    def encode(self, text: str) -> list[int]:
        return super().encode(text) or [BYTES]


class LosesEmoji(MyTokenizer):
    def decode(self, token_ids: Sequence[int], skip_special_tokens: bool = True) -> str:
        text = super().decode(token_ids, skip_special_tokens)
        return "".join(char for char in text if char < "\U0001f000")


class SwallowsSpecial(MyTokenizer):
    def encode(self, text: str) -> list[int]:
        return [token_id for token_id in super().encode(text) if token_id < BYTES]


class Truncates(MyTokenizer):
    def encode(self, text: str) -> list[int]:
        return super().encode(text)[:131_072]


class SortsBatches(MyTokenizer):
    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        return super().encode_batch(sorted(texts, key=len))


class NeedsWholeCharacters(MyTokenizer):
    def decode(self, token_ids: Sequence[int], skip_special_tokens: bool = True) -> str:
        if "\ufffd" in (text := super().decode(token_ids, skip_special_tokens)):
            raise ValueError("no UTF-8")
        return text


class DependsOnLast(MyTokenizer):
    """Has two ids for each byte, and takes the one or the other by the text before."""

    ALIAS = 512
    before = ""

    def encode(self, text: str) -> list[int]:
        alias = self.ALIAS if self.before > text else 0
        self.before = text
        return [token_id + alias for token_id in super().encode(text)]

    def decode(self, token_ids: Sequence[int], skip_special_tokens: bool = True) -> str:
        return super().decode(
            [token_id % self.ALIAS for token_id in token_ids], skip_special_tokens
        )


class OneBuffer(MyTokenizer):
    """Keeps the text that it works on in the instance."""

    thread_safe = True

    def encode(self, text: str) -> list[int]:
        self.text = text
        if threading.current_thread() is not threading.main_thread():
            time.sleep(0)
        return super().encode(self.text)


class HoldsLambda(MyTokenizer):
    def __init__(self, model_path: str) -> None:
        super().__init__(model_path)
        self.normalize = lambda text: text

    def __reduce__(self) -> Any:
        return copyreg.__newobj__, (type(self),), vars(self)  # type: ignore[attr-defined]  # as object does it


class HoldsGenerator(MyTokenizer):
    def __init__(self, model_path: str) -> None:
        super().__init__(model_path)
        self.numbers = (number for number in range(9))

    __reduce__ = HoldsLambda.__reduce__


class Forgets(MyTokenizer):
    """Gives other tokens from the 50th text on."""

    def __call__(self, texts: Iterable[str]) -> Iterator[list[str]]:
        for number, tokens in enumerate(super().__call__(texts)):
            yield tokens if number < 50 else tokens[1:]


class KnowsLengths(MyTokenizer):
    """Takes texts of the same length for the same text."""

    def __call__(self, texts: Iterable[str]) -> Iterator[list[str]]:
        known = self.__dict__.setdefault("known", {})
        for text in texts:
            if len(text) < 15:
                yield from super().__call__([text])
            else:
                [found] = super().__call__([text])
                yield known.setdefault(len(text), found)


class SlowToMake(MyTokenizer):
    def __init__(self, model_path: str) -> None:
        super().__init__(model_path)
        for _ in range(TIMES_SLOWER):
            self.encode(LONG)


class SlowStream(StreamsOnly):
    def __init__(self, model_path: str) -> None:
        super().__init__(model_path)
        list(self([LONG] * TIMES_SLOWER))


class ReadsAhead(MyTokenizer):
    def __call__(self, texts: Iterable[str]) -> Iterator[list[str]]:
        yield from super().__call__(list(texts))


class TakesFirstAtOnce(MyTokenizer):
    def __call__(self, texts: Iterable[str]) -> Iterator[list[str]]:
        taken = iter(texts)
        first = next(taken)
        return super().__call__(text for part in ([first], taken) for text in part)


class GivesIds(MyTokenizer):
    def __call__(self, texts: Iterable[str]) -> Any:
        return (self.encode(text) for text in texts)


class SharesStream(MyTokenizer):
    def __call__(self, texts: Iterable[str]) -> Iterator[list[str]]:
        self.texts = iter(texts)
        return self._stream()

    def _stream(self) -> Iterator[list[str]]:
        while (text := next(self.texts, None)) is not None:
            yield self._tokens(text)


class LastFirst(MyTokenizer):
    """Holds one text back, so that each comes a step late, and the last one in front of it."""

    def __call__(self, texts: Iterable[str]) -> Iterator[list[str]]:
        before: list[str] = []
        for tokens in super().__call__(texts):
            yield before or tokens
            before = tokens


class ShowsSpecial(MyTokenizer):
    special_toks = ("<|im_start|>", "<|im_end|>", "!")

    def decode(self, token_ids: Sequence[int], skip_special_tokens: bool = True) -> str:
        return super().decode(token_ids, skip_special_tokens and token_ids != [BYTES])


class ShowsAddress(MyTokenizer):
    def __repr__(self) -> str:
        return object.__repr__(self)


class NoRepr(StreamsOnly):
    def __repr__(self) -> str:
        raise RuntimeError("not now")


class HoldsLock(HoldsLambda):
    def __init__(self, model_path: str) -> None:
        super().__init__(model_path)
        self.lock = threading.RLock()


class AllForget(StreamsOnly):
    """Gives other tokens from the 50th text of all instances on."""

    taken = 0

    def __call__(self, texts: Iterable[str]) -> Iterator[list[str]]:
        for tokens in super().__call__(texts):
            type(self).taken += 1
            yield tokens if self.taken < 50 else tokens[1:]


class AllKnowLengths(StreamsOnly):
    """Takes texts of the same length for the same text, in all instances."""

    known: ClassVar[dict[int, list[str]]] = {}

    def __call__(self, texts: Iterable[str]) -> Iterator[list[str]]:
        for text in texts:
            [found] = super().__call__([text])
            yield self.known.setdefault(len(text), found)


class StreamsAndDecodes(StreamsOnly):
    special_toks: Any = ("<s>",)

    def decode(self, token_ids: Sequence[int], skip_special_tokens: bool = True) -> Any:
        return " ".join(map(str, token_ids))


class DecodesToIds(StreamsAndDecodes):
    def decode(self, token_ids: Sequence[int], skip_special_tokens: bool = True) -> Any:
        return list(token_ids)


class DecodesAll(StreamsAndDecodes):
    def decode(self, token_ids: Sequence[int]) -> Any:  # type: ignore[override]  # the fault
        return super().decode(token_ids)


class OneSpecial(StreamsAndDecodes):
    special_toks = "<s>"


class ForgetsMessages(MyTokenizer):
    def apply_chat_template(self, messages: Any, tools: Any = None, **kwargs: Any) -> str:
        return super().apply_chat_template(messages[-1:])


class ChangesMessages(MyTokenizer):
    def apply_chat_template(self, messages: Any, tools: Any = None, **kwargs: Any) -> str:
        text = super().apply_chat_template(messages)
        messages.pop(0)
        return text


class TemplateOfIds(MyTokenizer):
    def tokenize(self, messages: Any, model: str, tools: Any = None) -> Any:
        return self.apply_chat_template(messages)


class Broken(NamedTuple):
    tokenizer: type
    check: str
    reason: str

    def fail(self) -> None:
        """Check the tokenizer: it fails its own check, for its reason, and no other."""
        outcomes = run(lambda: self.tokenizer("model"))
        failed = {each.check: each.detail for each in outcomes if each.outcome == "failed"}
        assert failed.keys() == {self.check}, failed
        assert self.reason in failed[self.check]
        assert not passed(outcomes)


BROKEN = (
    Broken(NoSkip, "signatures", "got an unexpected keyword argument 'skip_special_tokens'"),
    Broken(ShowsByDefault, "signatures", "skip_special_tokens must default to True"),
    Broken(GivesStrings, "results", "GivesStrings.encode returned list ['H', 'e',"),
    Broken(RaisesLate, "endurance", "raised RuntimeError: out of handles"),
    Broken(DependsOnLast, "independent", "again: ["),
    Broken(AddsBos, "empty", 'encode(""): [256] instead of []'),
    Broken(LosesEmoji, "emoji", "'' instead of '😀'"),
    Broken(SwallowsSpecial, "special tokens", "'a user\\n b' instead of 'a <|im_start|>user\\n b'"),
    Broken(Truncates, "very long", "131,072 long, not 200,000"),
    Broken(SortsBatches, "batch", "encode_batch, at 'Grüße"),
    Broken(NeedsWholeCharacters, "incremental", "NeedsWholeCharacters.decode"),
    Broken(OneBuffer, "threads", "encode in 8 threads"),
    Broken(HoldsGenerator, "dill", "generator"),
    Broken(Forgets, "stream order", "tokens of text 51, 'gamma, then one'"),
    Broken(KnowsLengths, "stream order", "tokens of text 2, 'alpha, then six'"),
    Broken(SlowToMake, "construction", "load large data once per process"),
    Broken(TakesFirstAtOnce, "stream lazy", "1 texts are taken before any tokens are requested"),
    Broken(ReadsAhead, "stream lazy", "6 texts are taken for 1 lists of tokens"),
    Broken(GivesIds, "stream tokens", "[111, 110, 101, 32, 116, 119, ...] is not a list of str"),
    Broken(LastFirst, "stream order", "of each text alone"),
    Broken(SharesStream, "stream re-entrant", "tokens of the first of two streams, read in turns"),
    Broken(ShowsSpecial, "special_toks", "decode of '<|im_start|>', skipped"),
    Broken(ForgetsMessages, "template", "lacks 'Name a prime number.'"),
    Broken(ChangesMessages, "template", "changes the messages"),
    Broken(TemplateOfIds, "prompt", "not a list"),
)
BROKEN_STREAMS = (
    *(broken for broken in BROKEN if broken.check.startswith("stream")),
    *(broken for broken in BROKEN if broken.check == "dill"),
    Broken(AllForget, "stream order", "tokens of text 22, 'alpha, then six'"),
    Broken(AllKnowLengths, "stream order", "'alpha, then one' and 'gamma, then six' have equal"),
    Broken(DecodesToIds, "decode", "DecodesToIds.decode returned list"),
    Broken(DecodesAll, "decode", "got an unexpected keyword argument 'skip_special_tokens'"),
    Broken(OneSpecial, "special_toks", "special_toks is '<s>', not a list"),
    Broken(SlowStream, "construction", "load large data once per process"),
)
"""Of these, what also breaks the streaming contract alone."""
