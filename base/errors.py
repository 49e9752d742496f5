"""The errors that more than one package raises.

The class says who has to act: the client (`RequestError`, HTTP 400 before any GPU work), the
operator (`SetupError`, the process stops before the engine loads), or the developers of a parser
or of Backedge (the others). All derive from `BackedgeError`, as do the errors that only one package
raises and defines:

- tokenization/errors.py: `TokenizerError` and its kinds (HTTP 503), `ContractError` of the kit;
- testing/transcripts.py: `UnknownPromptError`;
- offline/contracts.py: kinds of `SetupError`, and `EngineDiedError`;
- frontend/response/worker_stream.py: `WorkerError`;
- frontend/prompt_queue.py: `BusyError` (HTTP 503), `ClientGoneError`;
  frontend/containment.py: `PreparationError` (500).

Two errors appear only as causes of a `ParserFailedError`: `HeldTooMuchError` of
postprocess/fallback.py and `ParserDisabledError` of worker/pool/process.py.
"""

from __future__ import annotations

import contextlib
import difflib
import reprlib
from collections.abc import Iterable, Iterator
from typing import Self

from .hidden_characters import show_line
from .limits import MAX_REASON, MAX_SHOWN_NAME, MAX_SHOWN_TEXT

# Where the parsers' names come from; errors name the flag to change.
TOOL_CALL_FLAG = "--tool-call-parser"
REASONING_FLAG = "--reasoning-parser"
MALFORMED_FLAG = "--postprocess-malformed-calls"

# Limits for two parts of an error, which has MAX_SHOWN_TEXT characters with field and value.
MAX_PROBLEM = MAX_SHOWN_TEXT - MAX_SHOWN_NAME - 4
MAX_EXPECTED = MAX_PROBLEM - MAX_SHOWN_NAME - 14

_values = reprlib.Repr()
_values.maxlevel = 2


def shorten(text: str, limit: int = MAX_SHOWN_TEXT) -> str:
    """Return `text`, or its beginning and its end with "..." between them: `limit` characters."""
    if len(text) <= limit:
        return text
    end = limit // 4
    return f"{text[: limit - end - 3]}...{text[-end:]}"


def show(value: object) -> str:
    """Return a value as an error repeats it: MAX_SHOWN_NAME characters at most."""
    return shorten(_values.repr(value), MAX_SHOWN_NAME)


class BackedgeError(Exception):
    """Base of all errors that Backedge raises."""


@contextlib.contextmanager
def exiting(prefix: str = "Backedge: ") -> Iterator[None]:
    """End the process at an error of Backedge, with only its message after `prefix`."""
    try:
        yield
    except BackedgeError as error:
        raise SystemExit(f"{prefix}{show_line(error)}") from error


class FieldError(BackedgeError):
    """A field of a request, or an option, has a wrong value.

    field: its JSON path, for example `tools[0].function.name`, or its name.
    problem: the rest of the sentence that the field's name begins.
    The message repeats only the beginning and the end of long names, values and texts.
    """

    def __init__(self, field: str, problem: str) -> None:
        # Half a surrogate pair, as JSON in a string may have it, cannot be sent.
        self.field = shorten(field, MAX_SHOWN_NAME).encode(errors="backslashreplace").decode()
        self.problem = problem
        super().__init__(f"`{self.field}` {shorten(problem, MAX_PROBLEM)}.")

    @classmethod
    def wrong(cls, field: str, value: object, expected: str) -> Self:
        """Return the error for a value of a wrong type or out of its range."""
        return cls(field, f"must be {shorten(expected, MAX_EXPECTED)}, not {show(value)}")

    @classmethod
    def too_many(cls, field: str, count: int, unit: str, limit: int) -> Self:
        """Return the error for a value that is too long. unit: what is counted, in the plural."""
        return cls(field, f"has {count:,} {unit}; at most {limit:,} are allowed")

    @classmethod
    def unsupported(cls, field: str, why: str) -> Self:
        """Return the error for a field that accepts no value."""
        return cls(field, f"is not supported: {why}")


class RequestError(FieldError):
    """The request is wrong, and nothing was generated. HTTP 400."""

    @classmethod
    def rejected(cls, error: BaseException, judge: str = "the model's chat template") -> Self:
        """Return the error for messages that `judge`, which is not our code, rejects."""
        return cls("messages", f"is rejected by {judge}: {str(error).rstrip('.')}")


class SetupError(BackedgeError, RuntimeError):
    """A flag, an installed version or a seam is wrong; the process must not start."""


class UnknownParserError(SetupError):
    """There is no parser of this name.

    known: the names that exist. not_engines: the engine alone has none of this name.
    """

    def __init__(
        self, flag: str, name: str, known: Iterable[str], *, not_engines: bool = False
    ) -> None:
        names = sorted(known)
        near = difflib.get_close_matches(name.lower(), names, cutoff=0.7)
        advice = (
            f"did you mean {' or '.join(near)}?"
            if near
            else f"set it to one of: {', '.join(names)}."
        )
        reason = (
            "is not one of the engine's own parsers, for which --postprocess-parsers native or the "
            "other parser's name asks"
            if not_engines
            else "is not known"
        )
        super().__init__(f"{flag} {name!r} {reason}; {advice}")


class UnusableParserError(SetupError):
    """The parser of this name cannot post-process a stream."""

    def __init__(self, flag: str, name: str, reason: str, remedy: str) -> None:
        super().__init__(f"{flag} {name!r} cannot be used: {reason} {remedy}")


class ParserFailedError(BackedgeError):
    """A parser raised on the output of one request.

    The request continues as raw text, or fails with HTTP 500 if the worker was started with
    --postprocess-on-error=fail (postprocess/fallback.py).

    position: number of output tokens read before.
    cause: the exception, or its description if it was raised in another process.
    """

    def __init__(
        self, parser: str, request_id: str, position: int, cause: BaseException | str
    ) -> None:
        self.parser = parser
        self.position = position
        self.cause = cause
        reason = cause if isinstance(cause, str) else f"{type(cause).__name__}: {cause}"
        # An exception may quote all of the model's output.
        self.reason = reason if len(reason) <= MAX_REASON else f"{reason[:MAX_REASON]}..."
        super().__init__(
            f"parser {parser!r} failed on request {request_id} at output token {position}: "
            f"{self.reason}"
        )


class PoolAbsentError(BackedgeError):
    """No process of --postprocess-workers serves; another worker may answer."""


class ProtocolError(BackedgeError):
    """A frontend, worker or pool process sent a message that does not fit the protocol."""
