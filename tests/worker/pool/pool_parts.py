"""What a pool is built of in the tests: parsers that misbehave where the text says so."""

import errno
import itertools
import logging
import os
import signal
import sys
import time
from pathlib import Path

from backedge.parsers.events import Content, ToolCallStarted
from backedge.postprocess import delta_builder
from backedge.worker.pool import messages

from tests.support import tiny_detokenizers

LOOP, CRASH, RAISE, SLOW = "LOOP", "CRASH", "RAISE", "SLOW"
# A call whose name is half a character; memory without end; exits of the process; a death in a
# moment when the process works for nobody.
HALF, GREED, EXIT, LATER = "HALF", "GREED", "EXIT", "LATER"
# What a client without a stream gets of the call that follows HALF, which a limit cuts.
CUT_CALL = '{"name": "\ufffd", "arguments": '
LATER_SENDS = 4
# The process is stopped in the step, once.
STOP = "STOP"
# Loops that write to the log, with a logger and without one.
LOG, PRINT = "LOG", "PRINT"
# The parser does not come back, except the first time.
AGAIN = "AGAIN"
# What a process sends once instead of an answer; of the last, the key is that of the request.
NONSENSE = "NONSENSE"
MESSAGES = [
    b"",
    b"\xc1",
    b"\x91\x95\xa6Result\x01\x01\x01\x01",
    b"\x91\x93\xa8Progress\xcd\x00\x01\xce\x7f\xff\xff\xff",
]


class Parsers:
    """Parsers that misbehave.

    counter: file that counts the processes that came to CRASH, STOP, AGAIN or NONSENSE.
    nonsense: which of MESSAGES is sent at NONSENSE.
    """

    name = "misbehaving"
    breaks_before_calls: int | None = None

    def __init__(self, counter, slow_s, nonsense):
        self.counter = counter
        self.slow_s = slow_s
        self.nonsense = nonsense
        self.taken = []

    def shows_special_tokens(self, request):
        return False

    def __call__(self, request, prompt_token_ids):
        return Parser(self)


class Parser:
    token_aligned, in_reasoning, reasoning_tokens, dropped_calls, held = True, False, 0, 0, None

    def __init__(self, parsers):
        self.parsers = parsers
        self.text = ""

    def reads_together(self, token_ids):
        return len(token_ids) == 1

    def feed(self, text, token_ids=()):
        self.text += text
        if self.text.endswith(HALF):
            return [Content(text), ToolCallStarted(self.text.count(HALF), "\ud83d")]
        for word, misbehave in MISBEHAVIOUR.items():
            if self.text.endswith(word):
                misbehave(self.parsers)
        return [Content(text)] if text else []

    def finish(self, text="", token_ids=(), *, cut=False):
        return self.feed(text, token_ids)


def loop(parsers):
    while True:
        pass


def log_without_end(parsers):
    while True:
        try:
            fail(parsers)
        except KeyError:
            logging.getLogger("parsers_of_another").exception("again")


def print_without_end(parsers):
    while True:
        sys.stderr.write("again " * 20 + "\n")


def crash(parsers):
    if is_wanted(parsers):
        os.kill(os.getpid(), signal.SIGKILL)


def stop(parsers):
    if is_wanted(parsers):
        os.kill(os.getpid(), signal.SIGSTOP)


def loop_again(parsers):
    if not is_wanted(parsers):
        loop(parsers)


def fail(parsers):
    raise KeyError("raised")


def sleep(parsers):
    time.sleep(parsers.slow_s)


def take_memory(parsers):
    parsers.taken = [bytearray(1 << 24) for _ in range(1 << 12)]


def leave(parsers):
    sys.exit("a parser that ends the process")


def end_between_steps(parsers):
    """Have the process end between steps, when the client has what this step gives."""
    encode, sent = messages.encode, itertools.count(1)

    def encode_or_end(answers):
        if next(sent) > LATER_SENDS:
            os.kill(os.getpid(), signal.SIGKILL)
        return encode(answers)

    messages.encode = encode_or_end


def send_nonsense(parsers):
    if is_wanted(parsers):
        send_next(MESSAGES[parsers.nonsense])


def is_wanted(parsers):
    with Path(parsers.counter).open("a") as file:
        file.write("x")
        return file.tell() <= int(os.environ.get("CRASHES", "1"))


MISBEHAVIOUR = {
    LOOP: loop,
    LOG: log_without_end,
    PRINT: print_without_end,
    CRASH: crash,
    STOP: stop,
    AGAIN: loop_again,
    RAISE: fail,
    SLOW: sleep,
    GREED: take_memory,
    EXIT: leave,
    LATER: end_between_steps,
    NONSENSE: send_nonsense,
}


def send_next(message):
    """Have this process send `message` in place of its next answers."""
    encode = messages.encode

    def encode_nonsense(answers):
        messages.encode = encode
        return message.replace(b"\xcd\x00\x01", b"\xcd" + answers[0].key.to_bytes(2, "big"))

    messages.encode = encode_nonsense


def build(counter="/dev/null", slow_s=0.0, nonsense=0):
    return tiny_detokenizers(), Parsers(counter, slow_s, nonsense)


def broken():
    raise RuntimeError("nothing to build")


def build_slowly(started, seconds):
    """Build, but not before a time has passed. started: a file that shows that it has begun."""
    Path(started).touch()
    time.sleep(seconds)
    return build()


def build_to_die():
    """Build for processes that end before they serve."""
    os.register_at_fork(after_in_child=lambda: os._exit(3))
    return build()


def build_without_room(forks):
    """Build for a machine that refuses to fork twice, after `forks` processes."""
    fork, attempts = os.fork, itertools.count(1)

    def try_to_fork():
        if forks < next(attempts) <= forks + 2:
            raise BlockingIOError(errno.EAGAIN, "no room")
        return fork()

    os.fork = try_to_fork
    return build()


def build_to_hang(marker):
    """Build for processes of which the first hangs before it serves."""

    def hang():
        try:
            Path(marker).touch(exist_ok=False)
        except FileExistsError:
            return
        time.sleep(3600)

    os.register_at_fork(after_in_child=hang)
    return build()


def build_unmended():
    """Build for a process in which text is not made well-formed."""
    for name in ("mend_text", "mend_json"):
        setattr(delta_builder, name, str)
    return build()
