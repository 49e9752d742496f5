"""The arguments of an open call reach the model as they were written, whatever a template does."""

from __future__ import annotations

import json

import pytest
from backedge.base.json_types import JsonObject
from backedge.templates.chat_template import ChatTemplate
from backedge.templates.environment import LoadedTemplate
from backedge.templates.open_calls import MARK, read_arguments
from hypothesis import example, given
from hypothesis import strategies as st

CALLS = "{% for m in messages %}{% for c in m.tool_calls or [] %}"
END = "{% endfor %}{% endfor %}"
ARGUMENTS = "c.function.arguments"
MAPPING = f"{{% if {ARGUMENTS} is not mapping %}}{{{{ raise_exception('no') }}}}{{% endif %}}"
# How templates write arguments, and what they write around those of an open call.
TEMPLATES = {
    "as JSON": (f"A{{{{ {ARGUMENTS} | tojson }}}}Z", "A{}Z"),
    "as JSON in lines": (f"A{{{{ {ARGUMENTS} | tojson(indent=2) }}}}Z", "A{}Z"),
    "as JSON within the call": ("{{ c.function | tojson }}", '{{"name": "f", "arguments": {}}}'),
    "as text, or else JSON": (
        f"A{{{{ {ARGUMENTS} if {ARGUMENTS} is string else {ARGUMENTS} | tojson }}}}Z",
        "A{}Z",
    ),
    "joined": (f"{{{{ 'A' + ({ARGUMENTS} | string) + 'Z' }}}}", "A{}Z"),
    "by item": (
        f"A{{% for k, v in {ARGUMENTS} | items %}}<p={{{{ k }}}}>{{{{ v }}}}</p>{{% endfor %}}Z",
        "A<p=>{}</p>Z",
    ),
    "by Python's item": (
        f"A{{% for k, v in {ARGUMENTS}.items() %}}<{{{{ k }}}}>{{{{ v | tojson }}}}{{% endfor %}}Z",
        "A<>{}Z",
    ),
    "sorted": (f"{{% for k, v in {ARGUMENTS} | dictsort %}}A{{{{ v }}}}Z{{% endfor %}}", "A{}Z"),
    "by key": (
        f"{{% for k in {ARGUMENTS} %}}A{{{{ {ARGUMENTS}[k] }}}}Z{{% endfor %}}",
        "A{}Z",
    ),
    "a mapping alone": (f"{MAPPING}A{{{{ {ARGUMENTS} | tojson }}}}Z", 'A{{"": {}}}Z'),
    "not at all": ("A{{ c.function.name }}Z", "AfZ"),
    "its type alone": (f"{MAPPING}AZ", "AZ"),
}
open_texts = st.text(min_size=1).filter(lambda text: MARK in read_arguments(text))


def call(arguments: object) -> JsonObject:
    return {"id": "1", "type": "function", "function": {"name": "f", "arguments": arguments}}


def turn(*arguments: object) -> JsonObject:
    return {"role": "assistant", "content": "", "tool_calls": [call(each) for each in arguments]}


@pytest.mark.parametrize("name", TEMPLATES)
@given(text=open_texts)
@example('{"city": "Rome')
@example("BACKEDGE-OPEN-CALL-0-")
@example('"BACKEDGE-OPEN-CALL-99-\\1 {{ x }} \ud800')
def test_it_is_shown_as_written(name: str, text: str) -> None:
    source, expected = TEMPLATES[name]
    template = LoadedTemplate(CALLS + source + END)
    good = '{"b": 1}'
    marked = [turn(read_arguments(text), read_arguments(good)), turn(read_arguments(text + "!"))]
    shown = template.render({"messages": marked})
    whole = template.render({"messages": [turn(read_arguments(good))]})
    first, last = (expected.format(each) for each in (text, text + "!"))
    assert shown == first + whole + last


@pytest.mark.parametrize(
    ("arguments", "read"),
    [
        (None, {}), ("", {}), (" \n", {}), ("null", {}), ("{}", {}), ('{"a": NaN}', None),
        ({"a": 1}, {"a": 1}), ('{"a": 1}', {"a": 1}), ("[1]", {MARK: "[1]"}), ('""', {MARK: '""'}),
        ('{"a": 1e999}', {MARK: '{"a": 1e999}'}), ("9" * 4301, {MARK: "9" * 4301}),
        ('{"a": ', {MARK: '{"a": '}), ("[" * 9999, {MARK: "[" * 9999}),
    ],
)  # fmt: skip
def test_which_arguments_are_open(arguments: object, read: JsonObject | None) -> None:
    found = read_arguments(arguments)
    assert found == read if read is not None else MARK not in found


# As from a client, and as in a row of a batch; then arguments with that name that are well-formed.
@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        (json.dumps({MARK: '{"a": "x'}), 'A<p=>{"a": "x</p>Z'),
        ('{"a": "x', 'A<p=>{"a": "x</p>Z'),
        (json.dumps({MARK: 1}), f"A<p={MARK}>1</p>Z"),
        (json.dumps({MARK: "", "b": 1}), f"A<p={MARK}></p><p=b>1</p>Z"),
    ],
)
def test_the_process_of_a_template_shows_it(arguments: str, shown: str) -> None:
    template = ChatTemplate({"default": CALLS + TEMPLATES["by item"][0] + END}, {})
    assert template.render([turn(arguments)]) == shown
