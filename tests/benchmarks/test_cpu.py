"""CPU times of processes: their arithmetic, and that work shows in them."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from benchmarks.cpu import CpuTime, cpu_time


def test_arithmetic() -> None:
    used = CpuTime(3.0, 7.0).since(CpuTime(1.0, 2.0))
    assert used == CpuTime(2.0, 5.0)
    assert used.total_s == 7.0
    assert used.per_second(2.0) == CpuTime(1.0, 2.5)
    assert used.less_idle(CpuTime(0.5, 0.25), 2.0) == CpuTime(1.0, 4.5)


def test_work_is_counted_to_the_process_that_does_it() -> None:
    code = "import sys\nwhile sys.stdin.read(1): sum(range(3_000_000)); print(flush=True)"
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        before = cpu_time(child.pid)
        child.stdin.write(b"x")
        child.stdin.flush()
        child.stdout.readline()
        used = cpu_time(child.pid).since(before)
        assert used.own_s > 0
        assert used.children_s == 0
        assert cpu_time(os.getpid()).children_s >= used.own_s
        child.stdin.close()


def test_a_process_that_has_ended_has_no_time() -> None:
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    with pytest.raises(OSError, match=r"Invalid argument|No such process"):
        cpu_time(child.pid)
