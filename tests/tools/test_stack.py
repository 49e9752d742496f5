"""The stack runner, with processes that take no time to start."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tools.stack import ROOT, Process, Stack, StackError

SLEEPER = ("-c", "import time; print('up', flush=True); time.sleep(600)")
# Starts a sleeper, says its process id, and waits. A shell has its background jobs ignore SIGINT.
OWNER = f"""
import signal, sys, time
from pathlib import Path
from tools.stack import Stack

signal.signal(signal.SIGINT, signal.default_int_handler)
with Stack(Path(sys.argv[1])) as stack:
    print(stack.start({SLEEPER!r}).popen.pid, flush=True)
    time.sleep(600)
"""


# The same with a process that does not end when it is asked to.
ASKED = "signal.signal(signal.SIGTERM, lambda *_: print('asked', flush=True))"
STUBBORN = ("-c", f"import signal, time; {ASKED}; print('up', flush=True); time.sleep(600)")


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def wait_for_log(process: Process) -> None:
    process.wait_for(lambda: bool(process.tail()), timeout_s=60)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_processes_too(tmp_path: Path, number: signal.Signals) -> None:
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER, str(tmp_path)], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    assert owner.stdout is not None
    sleeper = int(owner.stdout.readline())
    assert is_alive(sleeper)
    owner.send_signal(number)
    owner.communicate(timeout=60)
    assert owner.returncode != 0
    assert not is_alive(sleeper)


def test_a_second_signal_kills_what_has_not_ended(tmp_path: Path) -> None:
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER.replace(repr(SLEEPER), repr(STUBBORN)), str(tmp_path)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert owner.stdout is not None
    stubborn = int(owner.stdout.readline())
    [log] = tmp_path.glob("*.log")
    for word in ("up", "asked"):
        deadline = time.monotonic() + 60
        while word not in log.read_text() and time.monotonic() < deadline:
            time.sleep(0.05)
        owner.send_signal(signal.SIGTERM)
    owner.communicate(timeout=15)  # less than a process gets to end by itself
    assert not is_alive(stubborn)


def test_the_end_of_the_context_ends_the_processes(tmp_path: Path) -> None:
    with Stack(tmp_path, GREETING="hello") as stack:
        process = stack.start(("-c", "import os, time; print(os.environ['GREETING']); input()"))
        sleeper = stack.start(SLEEPER)
        for each in (process, sleeper):
            wait_for_log(each)
    assert process.popen.poll() is not None
    assert sleeper.popen.poll() == -signal.SIGTERM
    assert "hello" in process.tail()


def test_a_process_that_ends_is_an_error_with_its_log(tmp_path: Path) -> None:
    with Stack(tmp_path) as stack:
        process = stack.start(("-c", "raise SystemExit('no model here')"))
        with pytest.raises(StackError, match=r"ended with status 1:\nno model here"):
            process.wait_for(lambda: False, timeout_s=60)


def test_a_process_that_does_not_get_ready_is_an_error(tmp_path: Path) -> None:
    with Stack(tmp_path) as stack:
        process = stack.start(SLEEPER)
        started = time.monotonic()
        with pytest.raises(StackError, match="was not ready after 0 s"):
            process.wait_for(lambda: False, timeout_s=0.3)
        assert time.monotonic() - started < 30
