"""A slow template's prompts are made in a process of its own: the same text, the same errors."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jinja2
import pytest
from backedge.templates import rendering
from backedge.templates.chat_template import compile_template
from backedge.templates.rendering import IN_PROCESS, SlowTemplateError, allowing

LOOPS = "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}"
SOURCES = (
    "{{ text }}|{{ number }}|{{ none }}|{{ items }}|{{ items | tojson }}|{{ deep | tojson }}",
    "{% set ns = namespace(n=0) %}{% for m in items %}{% set ns.n = m %}{% endfor %}{{ ns.n }}",
    "{% generation %}{{ text | trim }}{% endgeneration %}{{ strftime_now('%Y') }}{{ unknown }}",
    "{% for k, v in deep.items() %}{{ k }}={{ v is mapping }}{{ v is true }}{% endfor %}",
)
REFUSED = (
    "{{ raise_exception('Roles must alternate') }}",
    "{{ none + 1 }}",
    "{{ 'x' * 999999999 }}",
    "{{ unknown.attribute }}",
)
VARIABLES: dict[str, Any] = {
    "text": " H\u00e4llo \U0001f642\n",
    "number": 1e-7,
    "none": None,
    "items": [1, 2.5, True, -(2**63)],
    "deep": {"z": {"a": [None, {}]}, "b": True, "": "x" * 1000},
}


def render(source: str, cpu_ms: float, variables: dict[str, Any] = VARIABLES) -> str:
    with allowing(cpu_ms):
        return compile_template(source).render(variables)


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    yield
    compile_template.cache_clear()


@pytest.mark.parametrize("source", SOURCES)
def test_the_text_is_the_same(source: str) -> None:
    assert render(source, IN_PROCESS) == compile_template(source).render(VARIABLES)


def test_a_long_conversation_is_read_whole() -> None:
    """A pipe gives a part of it at a time."""
    source = SOURCES[0]
    variables = {**VARIABLES, "items": ["turn " * 100] * 5000, "text": "\u00e4" * 2_000_000}
    assert render(source, IN_PROCESS, variables) == compile_template(source).render(variables)


@pytest.mark.parametrize("source", REFUSED)
def test_errors_have_the_same_text(source: str) -> None:
    with pytest.raises(Exception, match=r"\w") as here:
        compile_template(source).render(VARIABLES)
    with pytest.raises(jinja2.TemplateError) as there:
        render(source, IN_PROCESS)
    assert str(there.value) == str(here.value)


def test_what_takes_too_long_is_left_and_then_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rendering, "TEMPLATE_S", 0.2)
    monkeypatch.setattr(rendering, "SLOW_RENDER_S", 0.1)
    source = "{% if slow %}" + LOOPS + "{% endif %}quick"
    slow, quick = {"slow": True}, {"slow": False}
    assert render(source, 20.0, quick) == "quick"
    with pytest.raises(SlowTemplateError) as left:
        render(source, 20.0, slow)
    process = left.value.process
    assert not process.is_suspect
    with pytest.raises(TimeoutError, match="stopped after"):
        render(source, IN_PROCESS, slow)
    assert process.is_suspect
    assert render(source, 20.0, quick) == render(source, IN_PROCESS, quick) == "quick"


def children() -> set[int]:
    paths = Path("/proc/self/task").glob("*/children")
    return {int(pid) for path in paths for pid in path.read_text().split()}


def test_a_process_that_was_killed_is_replaced() -> None:
    source = SOURCES[0]
    before = children()
    expected = render(source, IN_PROCESS)
    (pid,) = children() - before
    os.kill(pid, signal.SIGKILL)
    assert render(source, IN_PROCESS) == expected


def test_a_process_that_ends_in_a_render_fails_it_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rendering, "PROGRAM", "this")
    with pytest.raises(TimeoutError, match="has ended"):
        render(SOURCES[1], IN_PROCESS)
    monkeypatch.undo()
    assert render(SOURCES[1], IN_PROCESS) == compile_template(SOURCES[1]).render(VARIABLES)


def test_variables_that_a_message_cannot_have_are_refused() -> None:
    with pytest.raises(TimeoutError, match="of these types"):
        render("{{ value }}", IN_PROCESS, {"value": object()})
    with pytest.raises(TimeoutError, match="of these types"):
        render("{{ value }}", IN_PROCESS, {"value": (1, 2)})


def test_only_so_many_wait_for_a_template(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rendering, "MAX_WAITING_RENDERS", 1)
    with pytest.raises(SlowTemplateError) as left:
        render(LOOPS, 1.0)
    process = left.value.process
    first = process.prepare(lambda: "done")
    assert first is not None
    assert first.result(10) == "done"
    waiting = [process.prepare(lambda: render("a", IN_PROCESS)) for _ in range(2)]
    assert [future is None for future in waiting] == [False, True]
