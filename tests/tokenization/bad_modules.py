"""Modules and classes that cannot be loaded, or do wrong once they are, or are unusual."""

from __future__ import annotations

import threading
import time
from typing import Any

from backedge.tokenization import load

from examples.my_tokenizer import MyTokenizer

NUMBER = 7


class Raises:
    def __init__(self, model_path: str) -> None:
        raise FileNotFoundError(f"no vocab.txt in {model_path}")


class Exits:
    def __init__(self, model_path: str) -> None:
        raise SystemExit(3)


class NoArguments:
    pass


class NoBatch:
    def __init__(self, model_path: str) -> None:
        pass

    def encode(self, text: str) -> list[int]:
        return []

    def decode(self, token_ids: Any, skip_special_tokens: bool = True) -> str:
        return ""


class AsksForItself(MyTokenizer):
    def __init__(self, model_path: str) -> None:
        super().__init__(model_path)
        load(__name__, "AsksForItself", model_path).encode("x")


class Slow(MyTokenizer):
    made = 0
    lock = threading.Lock()

    def __init__(self, model_path: str) -> None:
        super().__init__(model_path)
        with self.lock:
            type(self).made += 1
        time.sleep(0.05)


class SlowToFail:
    made = 0

    def __init__(self, model_path: str) -> None:
        type(self).made += 1
        time.sleep(0.05)
        raise RuntimeError("no licence")


class Wrong(MyTokenizer):
    """Every method returns what `result` is."""

    result: Any = None

    def encode(self, text: str) -> Any:
        return self.result

    def encode_batch(self, texts: Any) -> Any:
        return self.result

    def decode(self, token_ids: Any, skip_special_tokens: bool = True) -> Any:
        return self.result

    def apply_chat_template(self, messages: Any, tools: Any = None, **kwargs: Any) -> Any:
        return self.result


def create(path: str) -> MyTokenizer:
    return MyTokenizer(path)


class PromptsOnly:
    """Has `tokenize` alone."""

    def __init__(self, model_path: str) -> None:
        pass

    def tokenize(self, messages: Any, model: str, tools: Any = None) -> list[int]:
        return [len(messages), len(model), len(tools or [])]


class Strict(MyTokenizer):
    """Does template and encoding in one, and takes one argument for it."""

    def tokenize(self, messages: Any, model: str, tools: Any, *, terse: bool = False) -> Any:
        return [len(messages), len(model), len(tools or []), int(terse)]
