"""The program renders each job, whatever its template does, and ends with its input."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import msgspec
import pytest
from backedge.templates.chat_template import compile_template
from backedge.templates.render_process import render
from backedge.templates.rendering import (
    PROGRAM,
    Rendered,
    RenderJob,
    RenderProcess,
    read_message,
    write_message,
)


@pytest.mark.parametrize(
    ("source", "rendered"),
    [
        ("{{ a }}", Rendered("1")),
        ("{{ a.b.c }}", Rendered(error="'int object' has no attribute 'b'")),
        (
            "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}",
            Rendered(error="stopped after 0.1 s", timed_out=True),
        ),
    ],
)
def test_a_job_has_a_text_or_a_reason(source: str, rendered: Rendered) -> None:
    assert render(compile_template(source), RenderJob({"a": 1}, 0.1)) == rendered


def test_the_program_answers_each_job_and_ends_with_its_input() -> None:
    with subprocess.Popen(
        [sys.executable, "-m", PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as program:
        write_message(program.stdin, msgspec.msgpack.encode("{{ n }}\u00e4"))
        for number in range(3):
            write_message(program.stdin, msgspec.msgpack.encode(RenderJob({"n": number}, 10.0)))
            answer = msgspec.msgpack.decode(read_message(program.stdout), type=Rendered)
            assert answer == Rendered(f"{number}\u00e4")
        assert program.stdin is not None
        program.stdin.close()
        assert program.wait(30) == 0


def find_children() -> set[int]:
    tasks = Path("/proc/self/task").glob("*/children")
    return {int(child) for task in tasks for child in task.read_text().split()}


def test_a_program_that_has_ended_leaves_no_zombie_and_is_replaced() -> None:
    process, others = RenderProcess("{{ n }}"), find_children()
    assert process.render({"n": 1}) == "1"
    (child,) = find_children() - others
    (waiting,) = [one for one in threading.enumerate() if one.name == f"backedge-render-{child}"]
    os.kill(child, signal.SIGTERM)
    waiting.join(30)
    assert child not in find_children()
    assert process.render({"n": 2}) == "2"
