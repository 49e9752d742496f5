"""A chat template that would take all time or memory is refused, and delays no other model."""

from __future__ import annotations

import asyncio
import os
import statistics
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from backedge.base.errors import RequestError, SetupError
from backedge.frontend.prompt_queue import PromptQueue
from backedge.templates import rendering
from backedge.templates.chat_template import DEFAULT, ChatTemplate, compile_template

MESSAGES = [{"role": "user", "content": "hi"}]
# A number that Jinja cannot compute while it compiles, because it depends on the messages.
N = "{% set n = 20000 * messages | length %}"
# A list of 60 that contain each other twice: its text has 2 ** 60 words.
SHARED = (
    "{% set ns = namespace(t=[1], u=[1]) %}{% for i in range(60) %}"
    "{% set ns.t = [ns.t, ns.t] %}{% set ns.u = [ns.u, ns.u] %}{% endfor %}"
)
PAIRS = SHARED.replace("[ns.t, ns.t]", "(ns.t, ns.t)").replace("t=[1]", "t=(1,)")
COLLIDING = (
    "{% set ns = namespace(k=[]) %}{% for i in range(n) %}"
    "{% set ns.k = ns.k + [i * (2 ** 61 - 1)] %}{% endfor %}"
)
ATTACKS = [
    # Loops, and calls that run in C for long.
    "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
    "{{ 7 ** n ** 9 }}",
    "{{ n * n * n * n ** 99999 % 7 ** 99999 }}",
    "{{ ('{' ~ ':' * n).format(1) }}",
    "{{ ('{' ~ ':' * n).format_map({}) }}",
    "{{ ('%(' * n) % {} }}",
    "{{ ('x' * 99 * n).strip('y' * 99 * n ~ 'x') }}",
    "{{ ('x' * 99 * n) | trim('y' * 99 * n ~ 'x') }}",
    COLLIDING + "{{ dict.fromkeys(ns.k) }}{{ dict.fromkeys(ns.k) }}",
    PAIRS + "{{ {}[ns.t] }}",
    SHARED + "{{ ns.t == ns.u }}",
    # Gigabytes in a call.
    "{{ ('一' * 5000 * n) | list }}",
    "{{ 'x'.join('一' * 5000 * n) }}",
    "{{ ('一 ' * 5000 * n).split() }}",
    "{{ ('一' * 5000 * n) | sort }}",
    "{{ ('一' * 5000 * n) | batch(2) | list }}",
    "{{ 'x' * 99999 * n }}",
    "{{ ([0] * 99999 * n) | length }}",
    "{{ '%0999999999d' % n }}",
    "{{ '%*d' % (99999 * n, 1) }}",
    "{{ '{:>{}}'.format(1, 99999 * n) }}",
    "{{ 'x' | center(99999 * n) }}",
    "{{ ('x\n' * n) | indent(99999) }}",
    "{{ (1).to_bytes(99999 * n, 'big') }}",
    "{{ ('x' * n).translate({120: 'y' * 99999}) }}",
    SHARED + "{{ ns.t }}",
    SHARED + "{{ ns.t | tojson }}",
    # More than a prompt, of which each part is small.
    "{% for a in range(99999) %}{{ 'x' * n }}{% endfor %}",
    "{% set s = namespace(t='x') %}{% for i in range(40) %}{% set s.t = s.t ~ s.t %}{% endfor %}",
    "{% set s = namespace(t=0) %}{% for i in range(n) %}{% set s.t = [s.t] %}{% endfor %}{{ s.t }}",
    # Refused when it is compiled.
    "{{ 7 ** 99 ** 99 ** 99 }}",
    "{{ " + "(" * 5000 + ")" * 5000 + " }}",
]
OTHERS_WAIT_S = 0.25
MEMORY_BYTES = 64 << 20


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")


@pytest.fixture(autouse=True)
def short_limits(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(rendering, "TEMPLATE_S", 0.5)
    monkeypatch.setattr(rendering, "RENDER_MEMORY_MB", 256)
    compile_template.cache_clear()
    yield
    compile_template.cache_clear()


def attack(source: str) -> str:
    return ChatTemplate({DEFAULT: N + source}, {}).render(MESSAGES)


@pytest.mark.parametrize("source", ATTACKS)
def test_an_attack_is_refused_and_delays_no_other_model(source: str) -> None:
    other = ChatTemplate({DEFAULT: "{{ messages[0].content }}"}, {})
    before = resident_bytes()

    async def run() -> list[float]:
        queue, waits = PromptQueue(threads=2), list[float]()
        attacking = asyncio.create_task(queue.run(attack, source))
        while not attacking.done():
            began = time.monotonic()
            assert await queue.run(other.render, MESSAGES) == "hi"
            waits.append(time.monotonic() - began)
            await asyncio.sleep(0.01)
        with pytest.raises((RequestError, SetupError)):
            await attacking
        return waits

    # Not the template but a busy machine may delay the others, though not each time.
    assert any(statistics.median(asyncio.run(run())) < OTHERS_WAIT_S for _ in range(3))
    assert resident_bytes() - before < MEMORY_BYTES
