"""The program answers each message, within its limits, and ends with its socket."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import msgspec
import pytest
from backedge.templates.render_process import Channel, Load, Loaded, Rendered
from backedge.templates.rendering import PROGRAM

WAIT_S = 30.0


@contextmanager
def started(
    source: str, cpu_s: float = 10.0, memory_mb: int = 64
) -> Iterator[tuple[Channel, subprocess.Popen[bytes]]]:
    ours, theirs = socket.socketpair()
    with theirs:
        program = subprocess.Popen([sys.executable, "-m", PROGRAM], stdin=theirs.fileno())
    channel = Channel(ours)
    channel.send(msgspec.msgpack.encode(Load(source, cpu_s, memory_mb)))
    try:
        yield channel, program
    finally:
        channel.close()
        program.wait(WAIT_S)


def read_loaded(channel: Channel) -> Loaded:
    return msgspec.msgpack.decode(channel.receive(WAIT_S), type=Loaded)


def render(channel: Channel, variables: dict[str, Any]) -> Rendered:
    channel.send(msgspec.msgpack.encode(variables))
    return msgspec.msgpack.decode(channel.receive(WAIT_S), type=Rendered)


def test_the_program_answers_each_message_and_ends_with_its_socket() -> None:
    with started("{% for c in content %}{{ c }}{% endfor %}{{ n }}\u00e4") as (
        channel,
        program,
    ):
        assert read_loaded(channel) == Loaded(frozenset({"content", "n"}), reads_parts=True)
        for number in range(3):
            assert render(channel, {"n": number}) == Rendered(f"{number}\u00e4")
    assert program.returncode == 0


def test_a_template_that_jinja_cannot_compile_is_explained() -> None:
    with started("{% if %}") as (channel, _):
        assert "Expected an expression" in str(read_loaded(channel).error)


def test_the_program_goes_on_after_an_error() -> None:
    with started("{{ a.b.c }}") as (channel, _):
        read_loaded(channel)
        assert render(channel, {"a": 1}) == Rendered(error="'int object' has no attribute 'b'")
        assert render(channel, {"a": {"b": {"c": 2}}}) == Rendered("2")


def test_the_program_goes_on_after_a_template_has_made_too_much() -> None:
    with started("{{ ('x' * n) | length }}") as (channel, _):
        read_loaded(channel)
        too_much = Rendered(error="the chat template makes more than 64 MiB")
        assert render(channel, {"n": 1 << 30}) == too_much
        assert render(channel, {"n": 3}) == Rendered("3")


@pytest.mark.parametrize(
    "source",
    ["{% for a in range(99999) %}{% for b in range(999) %}{% endfor %}{% endfor %}{{ n }}",
     "{{ n ** 9999999 }}"],
)  # fmt: skip
def test_the_kernel_ends_the_program_at_its_cpu_time(source: str) -> None:
    with started(source, cpu_s=0.2) as (channel, program):
        if read_loaded(channel).error is None:
            channel.send(msgspec.msgpack.encode({"n": 7}))
        with pytest.raises((EOFError, OSError)):
            channel.receive(WAIT_S)
        assert program.wait(WAIT_S) == -signal.SIGPROF


def test_the_cpu_time_of_each_prompt_counts_alone() -> None:
    source = "{% for a in range(n) %}{% for b in range(1000) %}{% endfor %}{% endfor %}done"
    with started(source, cpu_s=0.5) as (channel, _):
        read_loaded(channel)
        assert {render(channel, {"n": 3000}).text for _ in range(20)} == {"done"}
