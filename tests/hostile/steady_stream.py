"""A reader of one stream after the other, in a process of its own: what others send delays it not.

As a program (python -m tests.hostile.steady_stream URL) it prints a line when it reads, and the
longest gap when its input ends.
"""

from __future__ import annotations

import json
import select
import subprocess
import sys
import time
from typing import Self

import httpx

from tests.e2e.client import build_request
from tests.support import TRANSCRIPTS, write
from tools.stack import MODEL_NAME

# Of the transcripts the longest.
ASKED = "long_argument"


class SteadyStream:
    """Reads streams of a frontend as long as the context lasts.

    longest_gap_s: the longest time between two chunks of one stream; afterwards.
    """

    def __init__(self, url: str) -> None:
        self.longest_gap_s = 0.0
        self._url = url

    def __enter__(self) -> Self:
        self._reader = subprocess.Popen(
            [sys.executable, "-m", "tests.hostile.steady_stream", self._url],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert self._reader.stdout is not None
        self._reader.stdout.readline()  # it reads its first stream
        return self

    def __exit__(self, *_: object) -> None:
        self.longest_gap_s = float(self._reader.communicate()[0])


def read(url: str) -> float:
    """Return the longest gap in streams of this frontend until standard input ends."""
    request = build_request(TRANSCRIPTS[ASKED], MODEL_NAME, {})
    extra = request.pop("extra_body", {})
    body = {**request, **extra, "stream": True}
    longest, begun = 0.0, False
    while True:
        last = None
        with httpx.stream("POST", url + "/v1/chat/completions", json=body, timeout=60) as answer:
            answer.raise_for_status()
            for _ in answer.iter_raw():
                now = time.monotonic()
                longest = max(longest, now - (last or now))
                last = now
                if not begun:
                    write("reading")
                    begun = True
                if select.select([sys.stdin], [], [], 0)[0]:
                    return longest


if __name__ == "__main__":
    write(json.dumps(read(sys.argv[1])))
