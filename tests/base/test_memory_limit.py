"""A process that is limited gets a MemoryError, and goes on."""

import resource
import subprocess
import sys

import pytest
from backedge.base.memory_limit import limit_memory

PROGRAM = """
import sys
sys.path[:0] = ["."]
from backedge.base.memory_limit import limit_memory
limit_memory(int(sys.argv[1]))
for size in (1, 32, 256):
    try:
        bytearray(size << 20)
        print(size)
    except MemoryError:
        print("none")
"""


@pytest.mark.parametrize(("limit", "found"), [(64, ["1", "32", "none"]), (0, ["1", "32", "256"])])
def test_memory_beyond_the_limit_is_refused(limit, found):
    words = [sys.executable, "-c", PROGRAM, str(limit)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.split() == found


@pytest.mark.parametrize("hard", [resource.RLIM_INFINITY, 5 << 20])
def test_the_limit_of_the_machine_stays(monkeypatch, hard):
    found = []
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (hard, hard))
    monkeypatch.setattr(resource, "setrlimit", lambda kind, limits: found.append(limits))
    limit_memory(1 << 20)
    [(soft, kept)] = found
    assert kept == hard
    assert soft == hard if hard > 0 else soft > 1 << 40
