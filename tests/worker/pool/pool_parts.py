"""What a pool is built of in the tests: parsers that misbehave where the text says so."""

import os
import signal
import sys
import time
from pathlib import Path

from backedge.parsers.events import Content, ToolCallStarted
from backedge.postprocess import delta_builder

from tests.support import tiny_detokenizers

LOOP, CRASH, RAISE, SLOW = "LOOP", "CRASH", "RAISE", "SLOW"
# A call whose name is half a character; memory without end; exits of the process; a death in a
# moment when the process works for nobody.
HALF, GREED, EXIT, LATER = "HALF", "GREED", "EXIT", "LATER"
LATER_S = 0.05


class Parsers:
    """Parsers that misbehave. counter: file that counts the processes that died at CRASH."""

    name = "misbehaving"

    def __init__(self, counter, slow_s):
        self.counter = counter
        self.slow_s = slow_s
        self.taken = []

    def shows_special_tokens(self, request):
        return False

    def __call__(self, request, prompt_token_ids):
        return Parser(self)


class Parser:
    token_aligned, in_reasoning, reasoning_tokens = True, False, 0

    def __init__(self, parsers):
        self.parsers = parsers
        self.text = ""

    def reads_together(self, token_ids):
        return len(token_ids) == 1

    def feed(self, text, token_ids=()):
        self.text += text
        if self.text.endswith(LOOP):
            while True:
                pass
        if self.text.endswith(CRASH) and self.crashes():
            os.kill(os.getpid(), signal.SIGKILL)
        if self.text.endswith(RAISE):
            raise KeyError("raised")
        if self.text.endswith(SLOW):
            time.sleep(self.parsers.slow_s)
        if self.text.endswith(HALF):
            return [Content(text), ToolCallStarted(self.text.count(HALF), "\ud83d")]
        if self.text.endswith(GREED):
            self.parsers.taken = [bytearray(1 << 24) for _ in range(1 << 12)]
        if self.text.endswith(EXIT):
            sys.exit("a parser that ends the process")
        if self.text.endswith(LATER):
            end_between_steps()
        return [Content(text)] if text else []

    def finish(self, text="", token_ids=(), *, cut=False):
        return self.feed(text, token_ids)

    def crashes(self):
        with Path(self.parsers.counter).open("a") as file:
            file.write("x")
            return file.tell() <= int(os.environ.get("CRASHES", "1"))


def end_between_steps():
    """Have a signal end the process after this step."""
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, LATER_S)


def build(counter="/dev/null", slow_s=0.0):
    return tiny_detokenizers(), Parsers(counter, slow_s)


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
