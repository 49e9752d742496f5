"""Prompts are made in processes: the same text and errors, and none is lost with a process."""

from __future__ import annotations

import functools
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jinja2
import pytest
from backedge.base.errors import RequestError, SetupError
from backedge.base.limits import MAX_LOOP_RENDER_MS
from backedge.templates import rendering
from backedge.templates.chat_template import ChatTemplate, compile_template, find_variables
from backedge.templates.environment import LoadedTemplate
from backedge.templates.rendering import (
    IN_SLOW_SEAT,
    ProcessTemplate,
    SlowTemplateError,
    allowing,
)

LOOPS = "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}"
# Ends after about half a second of CPU time.
LONG = "{% if slow %}{% for a in range(99999) %}{% for b in range(200) %}{% endfor %}{% endfor %}"
LONG += "{% endif %}{{ number }}"
SOURCES = (
    "{{ text }}|{{ number }}|{{ none }}|{{ items }}|{{ items | tojson }}|{{ deep | tojson }}",
    "{% set ns = namespace(n=0) %}{% for m in items %}{% set ns.n = m %}{% endfor %}{{ ns.n }}",
    "{% generation %}{{ text | trim }}{% endgeneration %}{{ strftime_now('%Y') }}{{ unknown }}",
    "{% for k, v in deep.items() %}{{ k }}={{ v is mapping }}{{ v is true }}{% endfor %}",
)
REFUSED = (
    "{{ raise_exception('Roles must alternate') }}",
    "{{ none + 1 }}",
    "{{ unknown.attribute }}",
    "{{ items.append(1) }}",
    "{{ text.__class__.__mro__ }}",
)
VARIABLES: dict[str, Any] = {
    "text": " H\u00e4llo \U0001f642\n",
    "number": 1e-7,
    "none": None,
    "items": [1, 2.5, True, -(2**63)],
    "deep": {"z": {"a": [None, {}]}, "b": True, "": "x" * 1000},
}


@pytest.fixture
def opened() -> Iterator[Callable[[str], ProcessTemplate]]:
    made: list[ProcessTemplate] = []

    def open_template(source: str) -> ProcessTemplate:
        made.append(ProcessTemplate(source))
        return made[-1]

    yield open_template
    for template in made:
        template.close()


@pytest.mark.parametrize("source", SOURCES)
def test_a_process_makes_the_text_that_jinja_makes_here(opened: Any, source: str) -> None:
    assert opened(source).render(VARIABLES) == LoadedTemplate(source).render(VARIABLES)


def test_a_long_conversation_arrives_whole(opened: Any) -> None:
    """A socket gives a part of it at a time."""
    variables = {**VARIABLES, "items": ["turn " * 100] * 5000, "text": "\u00e4" * 2_000_000}
    text = opened(SOURCES[0]).render(variables)
    assert text == LoadedTemplate(SOURCES[0]).render(variables)


@pytest.mark.parametrize("source", REFUSED)
def test_errors_have_the_text_that_jinja_gives_them_here(opened: Any, source: str) -> None:
    with pytest.raises(Exception, match=r"\w") as here:
        LoadedTemplate(source).render(VARIABLES)
    with pytest.raises(jinja2.TemplateError) as there:
        opened(source).render(VARIABLES)
    assert str(there.value) == str(here.value)


def test_a_template_that_cannot_be_compiled_is_refused() -> None:
    with pytest.raises(SetupError, match="cannot be compiled"):
        ProcessTemplate("{% if %}")


def test_a_cached_template_is_asked_once_for_its_variables() -> None:
    source = "{{ text }}{% set own = 1 %}{{ own }}"
    assert find_variables(source) == {"text"}
    assert compile_template(source) is compile_template(source)


@pytest.mark.parametrize("value", [1 << 70, -(1 << 70), int("9" * 400)], ids=str)
def test_integers_of_any_length_pass(opened: Any, value: int) -> None:
    """A model may write them in a call, which its client sends back."""
    assert opened("{{ value.a | tojson }}").render({"value": {"a": value}}) == str(value)


@pytest.mark.parametrize("value", [object(), "\ud800"], ids=["object", "half"])
def test_variables_that_are_no_json_are_refused(opened: Any, value: object) -> None:
    with pytest.raises(jinja2.TemplateError, match="must be JSON"):
        opened("{{ value }}").render({"value": value})


def test_a_text_that_is_too_long_for_a_prompt_is_not_sent(opened: Any) -> None:
    with pytest.raises(jinja2.TemplateError, match="makes more than 67,108,864 characters"):
        opened("{{ 'x' * 1000 * number }}").render({"number": 100_000})


def test_a_template_that_does_not_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rendering, "TEMPLATE_S", 0.1)
    with pytest.raises(RequestError, match=r"stopped after 0\.1 s"):
        ChatTemplate({"default": LOOPS}, {}).render([{"role": "user", "content": "hi"}])
    compile_template.cache_clear()


def test_a_process_that_gives_no_answer_is_replaced(
    opened: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    template = opened("{{ number }}")
    os.kill(process_id(template), signal.SIGSTOP)
    monkeypatch.setattr(rendering, "RENDER_ANSWER_S", 0.1)
    with pytest.raises(TimeoutError, match="stopped after"):
        template.render({"number": 1})
    monkeypatch.undo()
    assert template.render({"number": 2}) == "2"


def process_id(template: ProcessTemplate, seat: str = "quick") -> int:
    program = getattr(template, seat).program
    assert program is not None
    return int(program.process.pid)


def wait_until(is_true: Callable[[], bool]) -> None:
    end = time.monotonic() + 30
    while not is_true():
        assert time.monotonic() < end
        time.sleep(0.005)


def test_a_process_that_was_killed_is_replaced(opened: Any) -> None:
    template = opened("{{ number }}")
    killed = process_id(template)
    os.kill(killed, signal.SIGKILL)
    assert template.render({"number": 1}) == "1"
    assert not Path(f"/proc/{killed}").exists()


def test_kills_in_the_midst_of_renders_lose_none(opened: Any) -> None:
    template = opened("{% for a in range(2000) %}{% endfor %}{{ number }}")
    made: list[str] = []

    def render(number: int) -> None:
        call = functools.partial(template.render, {"number": number})
        try:
            with allowing(100.0):
                made.append(call())
        except SlowTemplateError as slow:
            future = slow.process.prepare(call)
            assert future is not None
            made.append(future.result(60))

    def kill() -> None:
        for _ in range(5):
            wait_until(lambda: template.quick.is_ready)
            os.kill(process_id(template), signal.SIGKILL)
            time.sleep(0.02)

    killing = threading.Thread(target=kill)
    killing.start()
    number = 0
    while killing.is_alive():
        render(number)
        number += 1
    assert made == [str(n) for n in range(number)]


def test_a_render_that_ends_each_process_is_refused_and_no_other(opened: Any) -> None:
    template = opened("{{ number }}")
    template.quick.source = "{% if %}"  # its program ends
    os.kill(process_id(template), signal.SIGKILL)
    with pytest.raises(TimeoutError, match="has ended"):
        template.render({"number": 1})
    template.quick.source = "{{ number }}"
    assert template.render({"number": 2}) == "2"


def test_a_slow_prompt_goes_on_in_the_slow_seat(opened: Any) -> None:
    template = opened(LONG)
    slow, quick = {"slow": True, "number": 1}, {"slow": False, "number": 2}
    rendering_id = process_id(template)
    with allowing(20.0), pytest.raises(SlowTemplateError) as left:
        template.render(slow)
    assert left.value.waited_ms == 20.0
    assert process_id(template, "slow") == rendering_id
    wait_until(lambda: template.quick.is_ready)
    with allowing(60_000.0):
        assert template.render(quick) == "2"
    future = left.value.process.prepare(lambda: template.render(slow))
    assert future is not None
    assert future.result(60) == "1"
    assert process_id(template, "slow") == rendering_id  # it was not rendered again


def test_a_second_slow_prompt_is_ended_and_rendered_after_the_first(opened: Any) -> None:
    template = opened(LONG)
    variables = [{"slow": True, "number": number} for number in range(2)]
    for one in variables:
        wait_until(lambda: template.quick.is_ready)
        with allowing(20.0), pytest.raises(SlowTemplateError):
            template.render(one)
    calls = [functools.partial(template.render, one) for one in variables]
    futures = [template.prepare(call, IN_SLOW_SEAT) for call in calls]
    assert [future.result(60) for future in futures] == ["0", "1"]


def test_a_render_that_the_loop_leaves_is_waited_for_in_a_thread(opened: Any) -> None:
    template = opened(LONG)
    slow = {"slow": True, "number": 1}
    rendering_id = process_id(template)
    with allowing(MAX_LOOP_RENDER_MS), pytest.raises(SlowTemplateError):
        template.render(slow)
    with allowing(60_000.0):
        assert template.render(slow) == "1"
    assert process_id(template) == rendering_id


def test_the_answer_of_a_render_that_was_given_up_is_given_to_nobody(opened: Any) -> None:
    template = opened(LONG)
    with allowing(MAX_LOOP_RENDER_MS), pytest.raises(SlowTemplateError):
        template.render({"slow": True, "number": 1})
    with allowing(60_000.0):
        assert template.render({"slow": False, "number": 2}) == "2"


def test_only_so_many_requests_wait_for_a_template(
    opened: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rendering, "MAX_WAITING_RENDERS", 1)
    template, go = opened("a"), threading.Event()
    waiting = [template.prepare(go.wait, IN_SLOW_SEAT) for _ in range(2)]
    assert [future is None for future in waiting] == [False, True]
    go.set()


def test_a_prompt_that_finds_no_process_is_not_rendered_after_a_slow_one(
    opened: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for limit in ("MAX_SUSPECT_RENDER_MS", "MAX_THREAD_RENDER_MS"):  # however busy the machine is
        monkeypatch.setattr(rendering, limit, 60_000.0)
    template = opened("{{ number }}")
    os.kill(process_id(template), signal.SIGKILL)
    with template._slow_lock:  # as while a slow prompt is rendered
        with allowing(100.0), pytest.raises(SlowTemplateError) as left:
            template.render({"number": 1})
        future = left.value.process.prepare(lambda: template.render({"number": 1}))
        assert future is not None
        assert future.result(60) == "1"


def test_in_its_own_thread_a_prompt_is_rendered_in_the_slow_seat(opened: Any) -> None:
    template = opened("{{ number }}")
    with allowing(IN_SLOW_SEAT):
        assert template.render({"number": 1}) == "1"
    assert process_id(template, "slow") != process_id(template)


def test_the_processes_end_with_the_template() -> None:
    template = ProcessTemplate("a")
    number = process_id(template)
    del template
    assert not Path(f"/proc/{number}").exists()
