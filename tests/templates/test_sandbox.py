"""What a chat template may make: as much as a prompt needs, and nothing that takes the process."""

from __future__ import annotations

import tracemalloc
from typing import Any

import pytest
from backedge.base.errors import RequestError
from backedge.base.limits import MAX_MADE
from backedge.templates import prices, sandbox
from backedge.templates.chat_template import ChatTemplate, create_environment
from backedge.templates.prices import TemplateLimitError
from jinja2.sandbox import ImmutableSandboxedEnvironment

DOUBLED = (
    "{%% set s = namespace(t=%s) %%}{%% for i in range(40) %%}{%% set s.t = %s %%}{%% endfor %%}"
)
# A number that no single operation makes: it doubles again and again.
BIG = (
    "{% set s = namespace(a=2 ** 4000) %}"
    "{% for i in range(200) %}{% set s.a = s.a + s.a %}{% endfor %}"
)
# Each takes gigabytes, or a time without end, in the environment of transformers.
TOO_MUCH = [
    "{{ 7 ** n }}",
    "{{ 7 ** 99 ** 99 }}",
    "{{ n * n * n * n ** 99999 }}",
    "{% set ns = namespace(a=7) %}{% for i in range(99) %}{% set ns.a = ns.a * ns.a %}{% endfor %}",
    "{{ 'x' * n }}",
    "{{ n * 'x' }}",
    "{{ ('x' * 10 ** 9) | length }}",
    "{{ ([0] * n) | length }}",
    "{{ '%0999999999d' % 1 }}",
    "{{ '%.999999999f' % 1 }}",
    "{{ '%*d' % (n, 1) }}",
    "{{ '%(a)0999999999d' % {'a': 1} }}",
    "{{ '%0999999999d' | format(1) }}",
    "{{ ['%0999999999d'] | format(1) }}",
    "{{ '{:>999999999}'.format(1) }}",
    "{{ '{:>{}}'.format(1, n) }}",
    "{{ '{0:>999999999}'.format_map({}) }}",
    "{{ ('{0}' * 99999).format('x' * 99999) }}",
    "{{ ('%(a)s' * 99999) % {'a': 'x' * 99999} }}",
    "{{ 'x' | center(n) }}",
    "{{ 'x' | indent(n) }}",
    "{{ 'x\ny' | indent('z' * 99999, first=true) | indent(99999999) }}",
    "{{ ('\n' * 99999) | indent(99999) }}",
    "{{ [1] | tojson(indent=n) }}",
    "{{ [1, 2, 3] | tojson(separators=('x' * 99999999, 'y' * 99999999)) }}",
    "{{ [1] | batch(n, 0) | list }}",
    "{{ [1] | slice(n) | list }}",
    "{{ 1.5 | round(n, 'floor') }}",
    "{{ ('x' * 99999) | replace('x', 'y' * 99999) }}",
    "{{ ('x' * 99999).replace('', 'y' * 99999) }}",
    "{{ (['x' * 99999] * 99999) | join }}",
    "{{ range(99999) | map('replace', '', 'x' * 99999) | join }}",
    "{{ ('x' * 99999).join(['y'] * 99999) }}",
    "{{ ('x' * 99999) | wordwrap(1, wrapstring='y' * 99999) }}",
    "{{ 'x'.ljust(n) }}",
    "{{ 'x'.center(n) }}",
    "{{ '1'.zfill(n) }}",
    "{{ ('\t' * 99999).expandtabs(99999) }}",
    "{{ (1).to_bytes(n, 'big') }}",
    "{{ ('x' * 99999).translate({120: 'y' * 99999}) }}",
    "{{ ('x' * 9999999).encode('punycode') }}",
    "{{ 'x' | indent(-n * n) }}{{ 'x' * n }}",
    "{{ [1] | batch('nan' | float) | list }}{{ 'x' * n }}",
    "{{ [1] | batch('inf' | float) | list }}",
    "{{ ('1' * 9999999) | int(base=2) }}",
    "{{ (1).from_bytes(('x' * 9999999).encode(), 'big') }}",
    BIG + "{{ s.a // 3 }}",
    BIG + "{{ s.a / 3 }}",
    BIG + "{{ s.a % 3 }}",
    BIG + "{{ s.a is divisibleby 3 }}",
    "{{ strftime_now('x' * 99999999) }}",
    "{{ lipsum(n) }}",
    "{{ range(n) }}",
    DOUBLED % ("'x'", "s.t ~ s.t"),
    DOUBLED % ("'x'", "s.t + s.t"),
    DOUBLED % ("[0]", "s.t + s.t"),
    "{% set t = 'x' * 9999999 %}{% for i in range(99999) %}{{ t }}{% endfor %}",
    "{% macro m() %}{% for i in range(9999) %}{{ 'x' * 99999 }}{% endfor %}{% endmacro %}{{ m() }}",
    "{% set t %}{% for i in range(99999) %}{{ 'x' * 99999 }}{% endfor %}{% endset %}{{ t }}",
]
# A list of 60 that contain each other twice: its text has 2 ** 60 words.
SHARED = (
    "{% set ns = namespace(t=[1], u=[1]) %}"
    "{% for i in range(60) %}{% set ns.t = [ns.t, ns.t] %}{% set ns.u = [ns.u, ns.u] %}{% endfor %}"
)
TOO_MUCH += [
    SHARED + use
    for use in (
        "{{ ns.t }}",
        "{{ ns.t ~ '' }}",
        "{{ '%s' % (ns.t,) }}",
        "{{ '{}'.format(ns.t) }}",
        "{{ ns.t | string }}",
        "{{ ns.t | format }}",
        "{{ ns.t | tojson }}",
        "{{ ns.t | pprint }}",
        "{{ ns.t | join }}",
        "{{ ns.t == ns.u }}",
        "{{ ns.t < ns.u }}",
        "{{ ns.t is defined and ns.t == ns.u == ns.t }}",
        "{{ ns.u in [ns.t] }}",
        "{{ [ns.t, ns.u] | unique | list }}",
        "{{ [ns.t, ns.u] | sort }}",
        "{{ [ns.t] | select('equalto', ns.u) | list }}",
        "{{ [ns.t].count(ns.u) }}",
        "{{ [ns.t].index(ns.u) }}",
        "{{ ns }}",
        "{{ ns.t | safe | length }}",
        "{{ ns.t is lower }}",
        "{{ 'x' | attr(ns.t) }}",
    )
]
# A tuple of 60 that contain each other twice is hashed in 2 ** 60 steps.
PAIRS = SHARED.replace("[ns.t, ns.t]", "(ns.t, ns.t)").replace("t=[1]", "t=(1,)")
TOO_MUCH += [PAIRS + use for use in ("{{ {}[ns.t] }}", "{{ {ns.t: 1} }}", "{{ {}.get(ns.t) }}")]
TOO_MUCH += [
    "{{ dict([(n, 1)] * n) }}",
    "{% set l = [0] * 1000 %}{{ ([l] * 9999) | sum(start=[]) | length }}",
    "{% set l = ['x' * 9999999] %}{% for i in range(9999) %}{% set _ = l[0][1:] %}{% endfor %}",
]
DEEP = (
    "{% set ns = namespace(t=[1]) %}{% for i in range(9999) %}{% set ns.t = [ns.t] %}{% endfor %}"
    "{{ ns.t }}"
)


def render(source: str, **variables: Any) -> str:
    text: str = create_environment().from_string(source).render(**variables)
    return text


@pytest.mark.parametrize("source", [*TOO_MUCH, DEEP])
def test_what_no_prompt_needs_is_refused_before_it_is_made(source: str) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(RequestError) as refused:
            ChatTemplate({"default": source}, {}).render(
                [{"role": "user", "content": "hi"}], n=10**9
            )
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert refused.value.field == "messages"
    assert (
        "the chat template makes" in str(refused.value) or "lipsum" in source or "range(n" in source
    )
    assert peak < 1.5 * MAX_MADE


@pytest.mark.parametrize("source", TOO_MUCH)
def test_loading_a_template_computes_nothing(source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def spend(size: int) -> None:
        raise AssertionError(size)

    monkeypatch.setattr(sandbox, "spend", spend)
    monkeypatch.setattr(prices, "spend", spend)
    create_environment().from_string(source)


# What templates do, and others could: the text is that of Jinja's own sandbox.
ORDINARY = [
    "{{ a ~ b ~ 1 ~ none ~ true ~ [1, 'x'] }}",
    "{{ a + b }} {{ 1 + 2 }} {{ [1] + [2] }} {{ 1.5 + 2 }}",
    "{{ 3 * 4 }} {{ 'ab' * 3 }} {{ 3 * [1] }} {{ 'ab' * -1 }}",
    "{{ 2 ** 10 }} {{ 2 ** -1 }} {{ 7 % 4 }} {{ 7 // 2 }} {{ 7 / 2 }}",
    "{{ '%s: %05d %5.2f %%' % ('a', 3, 1.5) }} {{ '%(a)s' % {'a': 1} }} {{ '%s' | format(a) }}",
    "{{ '{:>5} {} {a}'.format(1, 'x', a=2) }}",
    "{{ 'x' | center(9) }}|{{ 'x\ny' | indent(2) }}|{{ 'x\ny' | indent('> ', true) }}",
    "{{ {'a': [1, {'b': none}]} | tojson }} {{ [1, 2] | tojson(indent=2) }}",
    "{{ [1, 2] | join(', ') }}",
    "{{ range(3) | map('string') | join('-') }} {{ ', '.join(['a', 'b']) }}",
    "{{ messages | map(attribute='role') | join(', ') }} {{ messages | length }}",
    "{{ 'a-b' | replace('-', '+') }} {{ 'a-b'.replace('-', '+') }} {{ 'a-b'.split('-') }}",
    "{{ 1.55 | round(1) }} {{ 1.55 | round(1, 'floor') }} {{ [3, 1, 2] | sort }}",
    "{{ [1, 2, 1] | unique | list }} {{ [1, 2, 3] | batch(2) | list }} {{ [1, 2] | sum }}",
    "{{ a == 'x' }} {{ 1 < 2 < 3 }} {{ 1 < 3 < 2 }} {{ 'a' in ['a'] }} {{ 'a' not in 'abc' }}",
    "{{ messages | selectattr('role', 'equalto', 'user') | list | length }}",
    "{{ messages[0].content is string }} {{ x is defined }} {{ 3 is ge(2) }} {{ 'a' is in 'abc' }}",
    "{% for m in messages %}{{ loop.index }}{{ m.role }}{{ m.content | trim }}{% endfor %}",
    "{% macro f(x) %}<{{ x }}>{% endmacro %}{{ f('a') }}{{ f(1) }}",
    "{% set s = namespace(n=0) %}{% for m in [1, 2] %}{% set s.n = s.n + m %}{% endfor %}{{ s.n }}",
    "{{ x }}{{ none }}{{ 1.0 }}{{ messages[0] }}{{ messages[0].items() | list }}",
    "{{ messages[0] | dictsort }} {{ 'a b c' | wordwrap(3) }}",
    "{{ 'ab' | upper }} {{ '<' | escape }} {{ 'a' is lower }} {{ a | safe }} {{ a | attr('b') }}",
    "{{ 'abc'[1:] }} {{ 'abc'[::-1] }} {{ [1, 2, 3][:-1] }} {{ messages[1:] }} {{ (1, 2)[:1] }}",
    "{{ {a: 1, 2: 3, (1, 2): 4}[(1, 2)] }} {{ dict(a=1).get('a') }}",
    "{{ [[1], [2]] | sum(start=[]) }} {{ [{'a': 1}] | sum(attribute='a') }}",
    "{{ 'x'.ljust(3) }}|{{ '1'.zfill(3) }}|{{ '\t'.expandtabs(3) }}|{{ 'x'.encode() }}",
]
VARIABLES = {"a": "x", "b": "y", "messages": [{"role": "user", "content": " hi "}]}


@pytest.mark.parametrize("source", ORDINARY)
def test_ordinary_templates_make_the_same_text(source: str) -> None:
    plain = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
    plain.filters["tojson"] = create_environment().filters["tojson"]
    assert render(source, **VARIABLES) == plain.from_string(source).render(**VARIABLES)


def test_every_prompt_has_a_budget_of_its_own() -> None:
    half = "{{ ('x' * " + str(MAX_MADE // 4) + ") | length }}"
    for _ in range(5):
        assert render(half) == str(MAX_MADE // 4)
    with pytest.raises(TemplateLimitError):
        render(half * 5)
