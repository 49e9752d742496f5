"""Code that does not end is stopped, and nothing else is."""

import random
import threading
import time

import jinja2
import pytest
from backedge.parsers.errors import RequestError
from backedge.tokenization import chat_template as template
from backedge.tokenization.chat_template import DEFAULT, ChatTemplate
from backedge.tokenization.time_limit import call_with_time_limit


def spin(seconds=float("inf")):
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass
    return "spun"


def stubborn():
    while True:
        try:
            spin()
        except Exception:  # noqa: BLE001, S112 - what code of strangers may do
            continue


@pytest.mark.parametrize("endless", [spin, stubborn])
def test_what_does_not_end_is_stopped(endless):
    with pytest.raises(TimeoutError, match="stopped after"):
        call_with_time_limit(0.05, endless)


def test_what_ends_gives_its_result():
    assert call_with_time_limit(10.0, lambda: "result") == "result"


def test_what_fails_fails_as_it_did():
    with pytest.raises(ZeroDivisionError):
        call_with_time_limit(10.0, lambda: 1 // 0)


def test_a_limit_that_is_about_to_expire_hits_nothing_but_its_own_code():
    outcomes = []

    def many():
        for _ in range(200):
            try:
                outcomes.append(call_with_time_limit(0.001, lambda: spin(random.random() * 0.002)))
            except TimeoutError:
                outcomes.append("stopped")

    threads = [threading.Thread(target=many) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    assert len(outcomes) == 800
    assert set(outcomes) == {"spun", "stopped"}


FOREVER = "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}"


def test_a_template_that_does_not_end_is_refused(monkeypatch):
    monkeypatch.setattr(template, "TEMPLATE_SECONDS", 0.1)
    with pytest.raises(RequestError, match="stopped after"):
        ChatTemplate({DEFAULT: FOREVER}, {}).render([{"role": "user", "content": "hi"}])


@pytest.mark.parametrize(
    "source", ["{{ ''.__class__.__mro__ }}", "{{ messages.append(1) }}", "{% include 'x' %}"]
)
def test_a_template_gets_out_of_its_box_nowhere(source):
    with pytest.raises((RequestError, jinja2.TemplateError)):
        ChatTemplate({DEFAULT: source}, {}).render([{"role": "user", "content": "hi"}])
