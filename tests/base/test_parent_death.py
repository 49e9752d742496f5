"""An engine's processes end with the one that started the engine, and no other process does."""

from __future__ import annotations

import multiprocessing
import os
import queue
import subprocess
import sys
import time
import tomllib

import pytest
from backedge.base.parent_death import VARIABLE, end_with_parent, start_engine

from tools.stack import ROOT

CHILD = """
import os, sys, time
from backedge.base.parent_death import end_with_parent
end_with_parent()
os.write(int(sys.argv[1]), b"ready")
time.sleep(5)
print("still here", flush=True)
"""
PARENT = """
import os, signal, subprocess, sys
from backedge.base.parent_death import adopt_engine, end_with_parent
if sys.argv[1] == "adopts":
    adopt_engine()
end_with_parent()
reading, writing = os.pipe()
command = [sys.executable, "-c", sys.argv[3], str(writing)]
child = subprocess.Popen(command, pass_fds=[writing])
os.read(reading, 5)
print("started", flush=True)
if sys.argv[2] == "killed":
    os.kill(os.getpid(), signal.SIGKILL)
child.wait()
"""


@pytest.mark.parametrize(
    ("adopts", "ends", "shown"),
    [
        ("adopts", "killed", "started\n"),
        ("adopts", "stays", "started\nstill here\n"),
        ("nothing", "killed", "started\nstill here\n"),
    ],
)
def test_the_processes_of_an_engine_end_with_the_one_that_is_killed(
    adopts: str, ends: str, shown: str
) -> None:
    environment = {name: value for name, value in os.environ.items() if name != VARIABLE}
    command = [sys.executable, "-c", PARENT, adopts, ends, CHILD]
    # It reads to the end of the child's output, too.
    process = subprocess.run(
        command, stdout=subprocess.PIPE, text=True, env=environment, check=False
    )
    assert process.stdout == shown


@pytest.mark.parametrize("starts", [True, False])
def test_the_end_of_an_engine_s_process_is_noticed(starts: bool) -> None:
    spawn = multiprocessing.get_context("spawn")
    earlier = spawn.Process(target=time.sleep, args=(0,))
    earlier.start()
    died: queue.Queue[object] = queue.Queue()

    def start() -> multiprocessing.process.BaseProcess:
        engine = spawn.Process(target=time.sleep, args=(60,))
        if starts:
            engine.start()
        return engine

    engine = start_engine(start, died.put)
    earlier.join()
    with pytest.raises(queue.Empty):
        died.get(timeout=0.1)
    if starts:
        engine.kill()
        assert died.get(timeout=10) is engine


def test_vllm_calls_it_in_its_processes() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    name = project["entry-points"]["vllm.general_plugins"]["backedge_offline"]
    assert name == f"{end_with_parent.__module__}:{end_with_parent.__name__}"
