"""The step of a process, read from another one."""

import os
import time

from backedge.worker.pool.current_step import StepMonitor, monitor_path


def test_each_side_sees_the_same_step(tmp_path):
    path = monitor_path(tmp_path, 3)
    reader, writer = StepMonitor(path), StepMonitor(path)
    assert reader.read() is None
    before = time.monotonic()
    writer.begin(7, 41)
    step = reader.read()
    assert step is not None
    assert before <= step.since <= time.monotonic()
    assert (step.key, step.chunks) == (7, 41)
    writer.end()
    assert reader.read() is None


def test_the_step_of_a_process_that_died_can_still_be_read(tmp_path):
    path = monitor_path(tmp_path, 1)
    reader = StepMonitor(path)
    pid = os.fork()
    if not pid:
        StepMonitor(path).begin(5, 2)
        os._exit(0)
    os.waitpid(pid, 0)
    step = reader.read()
    assert step is not None
    assert (step.key, step.chunks) == (5, 2)
    reader.close()
