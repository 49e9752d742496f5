"""The program that renders a stranger's chat template, within limits of memory and CPU time.

    python -m backedge.templates.render_process

Standard input is a socket to the process that started it: first `Load`, which is answered by
`Loaded`, then the variables of each prompt, answered by `Rendered`. It ends with the socket. The
kernel ends it at the CPU time limit, which therefore also holds for a call in C.
"""

from __future__ import annotations

import contextlib
import signal
import socket
from pathlib import Path

import msgspec

from ..base.errors import shorten
from ..base.json_types import JsonObject
from ..base.limits import MAX_PROMPT_CHARACTERS, RENDER_ANSWER_S
from ..base.memory_limit import limit_memory
from .environment import LoadedTemplate

# More than a prompt of MAX_PROMPT_CHARACTERS, of up to 4 bytes each.
MAX_MESSAGE_BYTES = 4 * MAX_PROMPT_CHARACTERS + 65_536
LENGTH_BYTES = 8
# The code of MessagePack's extension for a job in JSON.
AS_JSON = 1
READ_BYTES = 65_536
TOO_LONG = f"the chat template makes more than {MAX_PROMPT_CHARACTERS:,} characters"


class Load(msgspec.Struct, array_like=True):
    """The source of a template, and the limits: CPU time of each prompt, memory of the process."""

    source: str
    cpu_s: float
    memory_mb: int


class Loaded(msgspec.Struct, array_like=True):
    """The properties of a `LoadedTemplate`. error: why Jinja cannot compile the template."""

    variables: frozenset[str] = frozenset()
    reads_parts: bool = False
    error: str | None = None


class Rendered(msgspec.Struct, array_like=True):
    """The text of a prompt; None if the template raised. error: what it raised."""

    text: str | None = None
    error: str = ""


def encode_variables(variables: JsonObject) -> bytes:
    """Return a prompt's variables as a job. Integers of a call's arguments may have any length."""
    try:
        return msgspec.msgpack.encode(variables)
    except OverflowError:
        as_json = msgspec.json.encode(variables)
        return msgspec.msgpack.encode(msgspec.msgpack.Ext(AS_JSON, as_json))


def decode_variables(job: bytes) -> JsonObject:
    """Return the variables of a job."""
    variables: JsonObject = _decode_job(job)
    return variables


_decode_job = msgspec.msgpack.Decoder(
    ext_hook=lambda _, as_json: msgspec.json.decode(as_json)
).decode


class Channel:
    """Sends and receives messages through a socket, one at a time."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self._received = bytearray()

    def send(self, message: bytes) -> None:
        """Send a message. Raises `OSError` without a receiver."""
        if len(message) > READ_BYTES:  # a shorter one never waits
            self._socket.settimeout(RENDER_ANSWER_S)
        self._socket.sendall(len(message).to_bytes(LENGTH_BYTES, "big") + message)

    def receive(self, seconds: float | None = None) -> bytes:
        """Return a message. Raises `EOFError` and `OSError` without a sender.

        Raises `TimeoutError` if nothing comes for so many seconds; another call goes on.
        """
        self._socket.settimeout(seconds)
        received = self._received
        while not received or len(received) < (end := self._find_end()):
            part = self._socket.recv(READ_BYTES)
            if not part:
                raise EOFError
            received += part
        message = bytes(received[LENGTH_BYTES:end])
        received.clear()
        return message

    def _find_end(self) -> int:
        if len(self._received) < LENGTH_BYTES:
            return LENGTH_BYTES
        length = int.from_bytes(self._received[:LENGTH_BYTES], "big")
        if length > MAX_MESSAGE_BYTES:
            raise EOFError
        return LENGTH_BYTES + length

    def close(self) -> None:
        """End the conversation."""
        self._socket.close()


def main() -> None:
    """Render until the socket is closed."""
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    with contextlib.suppress(OSError):  # without memory, the kernel shall not end the frontend
        Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")
    channel = Channel(socket.socket(fileno=0))
    with contextlib.suppress(EOFError, OSError):
        serve(channel, msgspec.msgpack.decode(channel.receive(), type=Load))


def serve(channel: Channel, load: Load) -> None:
    """Answer until the socket is closed, which raises `EOFError` or `OSError`."""
    limit_memory(load.memory_mb)
    signal.setitimer(signal.ITIMER_PROF, load.cpu_s)
    try:
        template = LoadedTemplate(load.source)
    except Exception as error:  # noqa: BLE001 - Jinja, and Python's compiler
        channel.send(msgspec.msgpack.encode(Loaded(error=describe(error, load))))
        return
    channel.send(msgspec.msgpack.encode(Loaded(template.variables, template.reads_parts)))
    while True:
        job = channel.receive()
        signal.setitimer(signal.ITIMER_PROF, load.cpu_s)
        answer = render(template, job, load)
        signal.setitimer(signal.ITIMER_PROF, 0)
        channel.send(answer)


def render(template: LoadedTemplate, job: bytes, load: Load) -> bytes:
    """Return the encoded `Rendered` of a prompt. job: the encoded variables."""
    try:
        text = template.render(decode_variables(job))
        fits = len(text) <= MAX_PROMPT_CHARACTERS
        return msgspec.msgpack.encode(Rendered(text) if fits else Rendered(error=TOO_LONG))
    except Exception as error:  # noqa: BLE001 - a template is the model's code
        return msgspec.msgpack.encode(Rendered(error=describe(error, load)))


def describe(error: Exception, load: Load) -> str:
    """Return the text of what a template raised, or say that it has made too much."""
    if isinstance(error, MemoryError):
        return f"the chat template makes more than {load.memory_mb:,} MiB"
    return shorten(str(error))


if __name__ == "__main__":
    main()
