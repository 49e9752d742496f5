"""Errors of a user's own tokenizer, caused neither by the request nor by Backedge."""

from __future__ import annotations

import reprlib
from typing import Literal

from ..base.errors import BackedgeError

Stage = Literal["imported", "found", "constructed"]
REMEDIES: dict[Stage, str] = {
    "imported": "Install the module where this process runs, or set --tokenizer-module to another.",
    "found": (
        "Set --tokenizer-class to a class of that module with encode, encode_batch and decode, or "
        "with tokenize, or to a function that returns one."
    ),
    "constructed": (
        "The class is called with the model's path as its only argument; see docs/tokenizers.md."
    ),
}


class TokenizerError(BackedgeError):
    """The user's tokenizer cannot serve this request. HTTP 503: the request is not at fault."""


class TokenizerLoadError(TokenizerError):
    """The class could not be imported, found or constructed.

    name: `module:Class`. stage: the step that failed. reason: the cause, with its type.
    """

    def __init__(self, name: str, model_path: str, stage: Stage, reason: str) -> None:
        self.name, self.model_path, self.stage, self.reason = name, model_path, stage, reason
        model = f" for model {model_path}" if model_path else ""
        super().__init__(
            f"tokenizer {name}{model} could not be {stage}: {reason.rstrip('.')}. {REMEDIES[stage]}"
        )


class TokenizerFailedError(TokenizerError):
    """A method of the class raised. cause: the exception."""

    def __init__(self, name: str, method: str, argument: object, cause: Exception) -> None:
        self.name, self.method, self.cause = name, method, cause
        super().__init__(
            f"{name}.{method}({reprlib.repr(argument)}) raised {describe_error(cause)}"
        )


class TokenizerResultError(TokenizerError):
    """A method of the class returned a value that its contract does not allow."""

    def __init__(self, name: str, method: str, result: object, allowed: str) -> None:
        self.name, self.method, self.result = name, method, result
        shown = f"{type(result).__name__} {reprlib.repr(result)}"
        super().__init__(f"{name}.{method} returned {shown}; its contract is {allowed}.")


class ContractError(BackedgeError):
    """A check of the kit found that a tokenizer breaks its contract."""


class NotInstalledError(BackedgeError):
    """A check of the kit needs a package that is not installed."""


def describe_error(error: BaseException) -> str:
    """Return the type and the text of `error`."""
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
