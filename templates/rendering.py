"""Renders chat templates where they delay only their own requests.

A template that runs holds the interpreter's lock nearly all the time, so a frontend limits the CPU
time that a render may take in its event loop (`MAX_LOOP_RENDER_MS`) or in a thread
(`MAX_THREAD_RENDER_MS`). Beyond it, `SlowTemplateError` says that the request must be prepared
again, with `RenderProcess.prepare`: that renders in a process, one for each template that was slow.
"""

from __future__ import annotations

import contextlib
import functools
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from typing import IO, TypeVar

import jinja2
import msgspec
from typing_extensions import override

from ..base.json_types import JsonObject
from ..base.limits import (
    MAX_MADE,
    MAX_SUSPECT_RENDER_MS,
    MAX_WAITING_RENDERS,
    SLOW_RENDER_S,
    SUSPECT_S,
    TEMPLATE_S,
)
from .prices import reset_budget
from .time_limit import call_with_time_limit

R = TypeVar("R")
MS_PER_S = 1000
PROGRAM = "backedge.templates.render_process"
# Time to start the program on a busy machine, and to notice the limit.
START_S = 5.0
LENGTH_BYTES = 8
MAX_MESSAGE_BYTES = 4 * MAX_MADE

# The CPU time in milliseconds that a render may take here; None: it is not limited, `IN_PROCESS`:
# render in a process. It belongs to a request, whatever libraries are called on the way.
ALLOWED_MS: ContextVar[float | None] = ContextVar("ALLOWED_MS", default=None)
IN_PROCESS = 0.0


@contextmanager
def allowing(cpu_ms: float) -> Iterator[None]:
    """Let each render take `cpu_ms` of CPU time, or else raise `SlowTemplateError`."""
    token = ALLOWED_MS.set(cpu_ms)
    try:
        yield
    finally:
        ALLOWED_MS.reset(token)


class SlowTemplateError(BaseException):
    """A render has taken longer than it may here; `process` can make it without delaying others.

    Not an Exception: the libraries on the way would make it the template's own error.
    """

    def __init__(self, process: RenderProcess) -> None:
        self.process = process
        super().__init__("the chat template is slow")


class RenderJob(msgspec.Struct):
    """A prompt to render. limit_s: when to stop."""

    variables: JsonObject
    limit_s: float


class Rendered(msgspec.Struct):
    """The text of a prompt, or why it could not be made."""

    text: str | None = None
    error: str = ""
    timed_out: bool = False


class RenderProcess:
    """Renders the prompts of one template that was slow, one after another.

    The program starts with the first of them, and ends when it has had nothing to do for a while.
    """

    def __init__(self, source: str) -> None:
        self._source = source
        self._program: subprocess.Popen[bytes] | None = None
        self._places = threading.BoundedSemaphore(MAX_WAITING_RENDERS)
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="backedge-slow-template")
        self._suspect_until = 0.0

    @property
    def is_suspect(self) -> bool:
        """Whether the template has taken long lately, so that it may take little time elsewhere."""
        return time.monotonic() < self._suspect_until

    def prepare(self, function: Callable[[], R]) -> Future[R] | None:
        """Call `function`, which renders in the process, in the template's own thread.

        Returns None if too many requests wait for it.
        """
        if not self._places.acquire(blocking=False):
            return None
        future = self._executor.submit(_render_in_process, function)
        future.add_done_callback(lambda _: self._places.release())
        return future

    def render(self, variables: JsonObject) -> str:
        """Return the text of a prompt. Raises `TimeoutError` and `jinja2.TemplateError`."""
        job = RenderJob(variables, TEMPLATE_S)
        try:
            encoded = msgspec.msgpack.encode(job)
            is_same = msgspec.msgpack.decode(encoded, type=RenderJob).variables == variables
        except (TypeError, ValueError, OverflowError, RecursionError):
            is_same = False
        if not is_same:
            raise TimeoutError("takes too long for variables of these types")
        began = time.monotonic()
        rendered = self._exchange(encoded)
        if time.monotonic() - began > SLOW_RENDER_S:
            self._suspect_until = time.monotonic() + SUSPECT_S
        if rendered.timed_out:
            raise TimeoutError(rendered.error)
        if rendered.text is None:
            raise jinja2.TemplateError(rendered.error)
        return rendered.text

    def _exchange(self, job: bytes) -> Rendered:
        """Send a job and return the answer; once more if the program had just ended."""
        while True:
            is_new = self._program is None
            program = self._program or self._start()
            deadline = threading.Timer(TEMPLATE_S + START_S, program.kill)
            deadline.start()
            try:
                return _ask(program, job)
            except (OSError, EOFError, msgspec.DecodeError):
                self._program = None
                program.kill()
                program.wait()
                if is_new:
                    raise TimeoutError("the process that rendered it has ended") from None
            finally:
                deadline.cancel()

    def _start(self) -> subprocess.Popen[bytes]:
        program = subprocess.Popen(
            [sys.executable, "-m", PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self._program = program
        # A program that has ended stays a zombie until someone waits for it.
        name = f"backedge-render-{program.pid}"
        threading.Thread(target=program.wait, name=name, daemon=True).start()
        with contextlib.suppress(OSError):  # then there will be no answer
            write_message(program.stdin, msgspec.msgpack.encode(self._source))
        return program


def _ask(program: subprocess.Popen[bytes], job: bytes) -> Rendered:
    """Return the answer to a job. Raises `EOFError` or `OSError` if the program has ended."""
    write_message(program.stdin, job)
    return msgspec.msgpack.decode(read_message(program.stdout), type=Rendered)


def _render_in_process(function: Callable[[], R]) -> R:
    with allowing(IN_PROCESS):
        return function()


def write_message(stream: IO[bytes] | None, message: bytes) -> None:
    """Write a message with its length."""
    if stream is not None:
        stream.write(len(message).to_bytes(LENGTH_BYTES, "big") + message)
        stream.flush()


def read_message(stream: IO[bytes] | None) -> bytes:
    """Read such a message. Raises `EOFError` without a whole one."""
    length = int.from_bytes(_read(stream, LENGTH_BYTES), "big")
    if length > MAX_MESSAGE_BYTES:
        raise EOFError
    return _read(stream, length)


def _read(stream: IO[bytes] | None, length: int) -> bytes:
    """Read so many bytes, of which a pipe gives some at a time."""
    parts: list[bytes] = []
    while stream is not None and length > 0 and (part := stream.read(length)):
        parts.append(part)
        length -= len(part)
    if length > 0:
        raise EOFError
    return b"".join(parts)


class BoundedTemplate(jinja2.Template):
    """A template with a new budget for each prompt. source: set by who compiles it."""

    source = ""

    @override
    def render(self, *args: object, **kwargs: object) -> str:
        allowed_ms = ALLOWED_MS.get()
        if allowed_ms is None:
            return self._render_here(*args, **kwargs)
        if allowed_ms == IN_PROCESS:
            return self._process.render(dict(*args, **kwargs))
        if self._has_been_slow and self._process.is_suspect:
            allowed_ms = min(allowed_ms, MAX_SUSPECT_RENDER_MS)
        render = functools.partial(self._render_here, *args, **kwargs)
        try:
            return call_with_time_limit(allowed_ms / MS_PER_S, render, counts_cpu=True)
        except TimeoutError:
            self._has_been_slow = True
            raise SlowTemplateError(self._process) from None

    _has_been_slow = False

    @functools.cached_property
    def _process(self) -> RenderProcess:
        return RenderProcess(self.source)

    def _render_here(self, *args: object, **kwargs: object) -> str:
        reset_budget()
        return super().render(*args, **kwargs)
