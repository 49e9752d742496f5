"""Every error Backedge raises, in one tree.

The first split says whose fault it is: the request's (HTTP 400, before any GPU
work), the set-up's (the process stops before the engine loads) or ours. The
tree stands in the lowest package because every other one raises from it.
"""

from __future__ import annotations

import reprlib
from collections.abc import Iterable

# Where the parsers' names come from; errors name the flag to change.
TOOL_CALL_FLAG = "--tool-call-parser"
REASONING_FLAG = "--reasoning-parser"


class BackedgeError(Exception):
    """Base of all errors of this package."""


class RequestError(BackedgeError):
    """The request is wrong; nothing was generated. HTTP 400.

    field: the JSON path of the offending value, for example `tools[0].function.name`.
    """

    def __init__(self, field: str, value: object, allowed: str) -> None:
        self.field = field
        shown = reprlib.repr(value)
        super().__init__(f"`{field}` is {shown}; allowed: {allowed}.")


class SetupError(BackedgeError):
    """A flag, a version or a seam is wrong; the process must not start."""


class UnknownParserError(SetupError):
    """No parser has this name."""

    def __init__(self, flag: str, name: str, known: Iterable[str]) -> None:
        super().__init__(
            f"{flag} {name!r} is not known; set it to one of: {', '.join(sorted(known))}."
        )


class UnusableParserError(SetupError):
    """A parser has this name but cannot post-process a stream."""

    def __init__(self, flag: str, name: str, reason: str, remedy: str) -> None:
        super().__init__(f"{flag} {name!r} cannot be used: {reason} {remedy}")


class ParserFailedError(BackedgeError):
    """A parser raised on the output of one request.

    That request goes on as raw text, or fails with HTTP 500 if the worker was
    started with --postprocess-on-error=fail; see `postprocess.guard`.

    position: output tokens read before. cause: what it raised, or its description
        from another process, which is then the reason as a whole.
    """

    def __init__(
        self, parser: str, request_id: str, position: int, cause: BaseException | str
    ) -> None:
        self.parser = parser
        self.position = position
        self.cause = cause
        self.reason = cause if isinstance(cause, str) else f"{type(cause).__name__}: {cause}"
        super().__init__(
            f"parser {parser!r} failed on request {request_id} at output token {position}: {self.reason}"
        )


class ProtocolError(BackedgeError):
    """A peer sent a message that is not of the protocol."""
