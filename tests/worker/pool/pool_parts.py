"""What a pool is built of in the tests: parsers that misbehave where the text says so."""

import os
import signal
import time
from pathlib import Path

from backedge.parsers.events import Content

from tests.support import tiny_detokenizers

LOOP, CRASH, RAISE, SLOW = "LOOP", "CRASH", "RAISE", "SLOW"


class Parsers:
    """Parsers that misbehave. counter: file that counts the processes that died at CRASH."""

    name = "misbehaving"

    def __init__(self, counter, slow_s):
        self.counter = counter
        self.slow_s = slow_s

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
        return [Content(text)] if text else []

    def finish(self, text="", token_ids=(), *, cut=False):
        return self.feed(text, token_ids)

    def crashes(self):
        with Path(self.parsers.counter).open("a") as file:
            file.write("x")
            return file.tell() <= int(os.environ.get("CRASHES", "1"))


def build(counter="/dev/null", slow_s=0.0):
    return tiny_detokenizers(), Parsers(counter, slow_s)


def broken():
    raise RuntimeError("nothing to build")
