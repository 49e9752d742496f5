"""Renders chat templates in processes, where they delay only their own requests.

A template comes with a model and may loop, or make gigabytes in one call. So each template has two
seats for a process that is limited and can be killed: the quick one is for any prompt; a prompt
that takes longer than its caller may wait (`allowing`) goes on in the slow one. If that is in use
the process is killed, and the prompt is rendered again when it is its turn. `SlowTemplateError`
then says that the request must be prepared again, in a thread of the template (`SlowPrompt`).
Preparing again needs nothing of the libraries between them.
"""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple, TypeVar

import jinja2
import msgspec
from jinja2.sandbox import ImmutableSandboxedEnvironment

from ..base.errors import SetupError
from ..base.json_types import JsonObject
from ..base.limits import (
    MAX_LOOP_RENDER_MS,
    MAX_SUSPECT_RENDER_MS,
    MAX_THREAD_RENDER_MS,
    MAX_WAITING_RENDERS,
    RENDER_ANSWER_S,
    RENDER_MEMORY_MB,
    TEMPLATE_S,
)
from ..base.log import get_logger
from .environment import create_environment
from .render_process import READ_BYTES, Channel, Load, Loaded, Rendered, encode_variables

logger = get_logger(__name__)

R = TypeVar("R")
MS_PER_S = 1000
PROGRAM = "backedge.templates.render_process"

# How many milliseconds a render may wait here. None: to its end; also, in a thread of the template,
# `IN_ANY_SEAT` for a prompt that found no process, and `IN_SLOW_SEAT` for one that took too long.
# It belongs to a request, whatever libraries are called on the way.
ALLOWED_MS: ContextVar[float | None] = ContextVar("ALLOWED_MS", default=None)
IN_ANY_SEAT, IN_SLOW_SEAT = -1.0, 0.0


@contextmanager
def allowing(milliseconds: float) -> Iterator[None]:
    """Let each render wait so long, or else raise `SlowTemplateError`."""
    token = ALLOWED_MS.set(milliseconds)
    try:
        yield
    finally:
        ALLOWED_MS.reset(token)


class SlowPrompt(NamedTuple):
    """A prompt that its template can render without delaying others. seat: as for `ALLOWED_MS`."""

    template: ProcessTemplate
    seat: float

    def prepare(self, function: Callable[[], R]) -> Future[R] | None:
        """Call `function`, which renders the prompt to its end, in a thread of the template.

        Returns None if too many requests wait for it.
        """
        return self.template.prepare(function, self.seat)


class SlowTemplateError(BaseException):
    """A render has taken longer than it may here; `process` can make it without delaying others.

    Not an Exception: the libraries on the way would make it the template's own error.
    waited_ms: how long the render was waited for; 0 if there was no process for it.
    """

    def __init__(self, template: ProcessTemplate, waited_ms: float = 0.0) -> None:
        self.process = SlowPrompt(template, IN_SLOW_SEAT if waited_ms else IN_ANY_SEAT)
        self.waited_ms = waited_ms
        super().__init__("the chat template is slow")


# Errors of a conversation with a program that has ended.
ENDED = (EOFError, OSError, msgspec.DecodeError)


class Program(NamedTuple):
    """A process that renders a template, and the messages to and from it."""

    process: subprocess.Popen[bytes]
    channel: Channel

    def kill(self) -> int:
        """End the program, and return its exit status."""
        self.channel.close()
        self.process.kill()
        return self.process.wait()


class RenderProcess:
    """A seat for a program that renders one template. For one caller at a time.

    source: the template's, for the next start. program: the running one, which may have ended.
    """

    def __init__(self, source: str) -> None:
        self.source = source
        self.program: Program | None = None
        self._job: bytes | None = None

    @property
    def is_ready(self) -> bool:
        """Whether there is a program, which may have ended since."""
        return self.program is not None

    @property
    def is_rendering(self) -> bool:
        """Whether a prompt is rendered for which no caller waits at the moment."""
        return self._job is not None

    def start(self) -> Loaded:
        """Start a program, and return what it finds in the template. Raises `TimeoutError`."""
        ours, theirs = socket.socketpair()
        with theirs:
            # In a group of its own, so that a terminal's Ctrl-C ends the parent first.
            process = subprocess.Popen(
                [sys.executable, "-m", PROGRAM], stdin=theirs.fileno(), process_group=0
            )
        program = Program(process, Channel(ours))
        try:
            load = Load(self.source, TEMPLATE_S, RENDER_MEMORY_MB)
            program.channel.send(msgspec.msgpack.encode(load))
            answer = program.channel.receive(RENDER_ANSWER_S)
            loaded = msgspec.msgpack.decode(answer, type=Loaded)
        except ENDED:
            raise TimeoutError(_explain(program.kill())) from None
        self.program = program
        self._finalizer = weakref.finalize(self, program.kill)
        self._finalizer.atexit = False  # the program ends with its socket
        return loaded

    def ask(self, job: bytes, seconds: float) -> Rendered:
        """Return the answer to a job.

        Raises `TimeoutError` after `seconds`: the job goes on, and asking again gets its answer.
        Raises one of `ENDED` if there is no program.
        """
        if self.program is None:
            raise EOFError
        channel = self.program.channel
        if self._job not in (None, job):
            channel.receive(seconds)  # the caller that wanted this answer will ask again
            self._job = None
        if self._job is None:
            channel.send(job)
            self._job = job
        answer = channel.receive(seconds)
        self._job = None
        return msgspec.msgpack.decode(answer, type=Rendered)

    def finish(self, job: bytes) -> Rendered:
        """Return the answer to a job; start a program as often as necessary.

        Raises `TimeoutError` if the job takes longer than it may, or has ended two programs.
        """
        if self._job not in (None, job):
            self.end()  # not to wait for a job that may take long
        for is_last in (False, True):
            if not self.is_ready:
                self.start()
            try:
                return self.ask(job, RENDER_ANSWER_S)
            except TimeoutError:
                self.end()
                raise TimeoutError(_explain(-signal.SIGPROF)) from None
            except ENDED:
                status = self.end()
                if is_last or status == -signal.SIGPROF:
                    raise TimeoutError(_explain(status)) from None
        raise AssertionError

    def end(self) -> int:
        """End the program; return its exit status."""
        program, self.program, self._job = self.program, None, None
        if program is None:
            return 0
        self._finalizer.detach()
        return program.kill()


def _explain(status: int) -> str:
    """Describe why a program gave no answer. status: its exit status."""
    if status == -signal.SIGPROF:
        return f"stopped after {TEMPLATE_S:g} s"
    return "the process that rendered it has ended"


class ProcessTemplate:
    """A chat template that is rendered in processes.

    variables, reads_parts: as for `LoadedTemplate`. quick, slow: the seats.
    Raises `SetupError` for a template that cannot be compiled.
    """

    def __init__(self, source: str) -> None:
        self._source = source
        self.quick, self.slow = RenderProcess(source), RenderProcess(source)
        self._quick_lock, self._slow_lock = threading.Lock(), threading.Lock()
        self._executor = ThreadPoolExecutor(
            MAX_WAITING_RENDERS, thread_name_prefix="backedge-template"
        )
        self._places = threading.BoundedSemaphore(MAX_WAITING_RENDERS)
        try:
            loaded = self.quick.start()
            problem = loaded.error
        except TimeoutError as error:
            loaded, problem = Loaded(), str(error)
        if problem is not None:
            self.quick.end()
            raise SetupError(
                f"the chat template cannot be compiled ({problem}); correct it, or name another "
                "Jinja file with --chat-template."
            )
        self.variables, self.reads_parts = loaded.variables, loaded.reads_parts

    @property
    def environment(self) -> ImmutableSandboxedEnvironment:
        """The environment in which vLLM parses the source, to find how it reads contents."""
        return create_environment()

    def close(self) -> None:
        """End the processes; another render would start one again."""
        for seat in (self.quick, self.slow):
            seat.end()

    def prepare(self, function: Callable[[], R], seat: float) -> Future[R] | None:
        """Call `function` as `SlowPrompt.prepare`."""
        if not self._places.acquire(blocking=False):
            return None
        future = self._executor.submit(_call_in_seat, seat, function)
        future.add_done_callback(lambda _: self._places.release())
        return future

    def render(self, *args: Mapping[str, object], **kwargs: object) -> str:
        """Return the text of a prompt, whose variables are given as to `jinja2.Template.render`.

        Raises `jinja2.TemplateError` with the text of what the template raised, `TimeoutError`,
        and `SlowTemplateError` where `allowing` limits the time.
        """
        job = _encode(dict(*args, **kwargs))
        allowed_ms = ALLOWED_MS.get()
        if allowed_ms is None:
            with self._quick_lock:
                rendered = self.quick.finish(job)
        elif allowed_ms == IN_SLOW_SEAT:
            rendered = self._finish(job)
        elif allowed_ms == IN_ANY_SEAT:
            try:
                rendered = self._try(job, MAX_THREAD_RENDER_MS, may_start=True)
            except SlowTemplateError:
                rendered = self._finish(job)
        elif self.quick.is_ready:
            rendered = self._try(job, allowed_ms)
        else:
            raise SlowTemplateError(self)
        if rendered.text is None:
            raise jinja2.TemplateError(rendered.error)
        return rendered.text

    def _finish(self, job: bytes) -> Rendered:
        with self._slow_lock:
            return self.slow.finish(job)

    def _try(self, job: bytes, allowed_ms: float, *, may_start: bool = False) -> Rendered:
        """Render in the quick seat. Raises `SlowTemplateError`.

        may_start: start a program where one is missing.
        """
        in_loop = allowed_ms <= MAX_LOOP_RENDER_MS
        if in_loop and len(job) > READ_BYTES:
            raise SlowTemplateError(self)
        if not self._quick_lock.acquire(blocking=not in_loop):
            raise SlowTemplateError(self)
        if self._slow_lock.locked():
            allowed_ms = min(allowed_ms, MAX_SUSPECT_RENDER_MS)
        try:
            if may_start and not self.quick.is_ready:
                self.quick.start()
            return self.quick.ask(job, allowed_ms / MS_PER_S)
        except TimeoutError:
            if not in_loop:  # otherwise a thread goes on to wait for it
                self._leave_quick_seat()
            raise SlowTemplateError(self, allowed_ms) from None
        except ENDED:
            self._replace_quick()
            raise SlowTemplateError(self) from None
        finally:
            self._quick_lock.release()

    def _leave_quick_seat(self) -> None:
        """Let a render go on in the slow seat, or end it if another one is rendered there."""
        if self._slow_lock.acquire(blocking=False):
            try:
                if not self.slow.is_rendering:
                    self.quick, self.slow = self.slow, self.quick
            finally:
                self._slow_lock.release()
        if self.quick.is_rendering or not self.quick.is_ready:
            self._replace_quick()

    def _replace_quick(self) -> None:
        """Start a program for the quick seat, without a wait for it or for the end of the old."""
        old, self.quick = self.quick, RenderProcess(self._source)
        threading.Thread(target=self._start_quick, args=(old,), daemon=True).start()

    def _start_quick(self, old: RenderProcess) -> None:
        old.end()
        with self._quick_lock:
            try:
                self.quick.start()
            except OSError:
                logger.exception("a process for a chat template cannot be started")


def _call_in_seat(seat: float, function: Callable[[], R]) -> R:
    with allowing(seat):
        return function()


def _encode(variables: JsonObject) -> bytes:
    try:
        return encode_variables(variables)
    except (TypeError, OverflowError, RecursionError, UnicodeEncodeError) as error:
        raise jinja2.TemplateError(f"its variables must be JSON: {error}") from error
