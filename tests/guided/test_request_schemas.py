"""What of a request is checked in a thread; `test_bad_requests` has what is refused."""

import pytest
from backedge.base.errors import RequestError
from backedge.base.limits import MAX_SCHEMA_BYTES, MAX_SCHEMAS_BYTES
from backedge.guided.request_schemas import GUIDED_TEXTS, check_schemas, has_schemas

from tests.frontend.chat_requests import TOOL, chat_request

TAG = {"type": "structural_tag", "format": {"type": "const_string", "value": "x"}}
# fields, whether there is anything to check
GOOD = [
    ({}, False),
    ({"tools": []}, False),
    ({"tools": [TOOL]}, True),
    ({"tools": [{"type": "function", "function": {"name": "f"}}]}, True),
    ({"response_format": {"type": "text"}}, True),
    ({"response_format": TAG}, True),
    ({"guided_json": {}}, True),
    ({"guided_json": "true"}, True),
    ({"guided_regex": "(a|b)+"}, True),
    ({"guided_grammar": 'root ::= "a"'}, True),
    ({"guided_choice": ["a", "b"]}, True),
    ({"guided_choice": []}, True),
    ({"guided_json": {}, "guided_whitespace_pattern": "[ ]?"}, True),
]


@pytest.mark.parametrize(("fields", "checked"), GOOD)
def test_good_values_pass(fields, checked):
    request = chat_request(**fields)
    check_schemas(request)
    assert has_schemas(request) is checked


def text_of(size):
    """Return a schema whose JSON has `size` bytes."""
    schema = {"description": ""}
    return {"description": "x" * (size - len('{"description":""}'))} if size else schema


def tools(*sizes):
    return [
        {"type": "function", "function": {"name": f"f{number}", "parameters": text_of(size)}}
        for number, size in enumerate(sizes)
    ]


def test_the_largest_schemas_pass():
    check_schemas(chat_request(tools=tools(MAX_SCHEMA_BYTES)))
    most = MAX_SCHEMAS_BYTES // MAX_SCHEMA_BYTES
    check_schemas(chat_request(tools=tools(*[MAX_SCHEMA_BYTES] * most)))


@pytest.mark.parametrize(
    ("field", "sizes"),
    [
        ("tools[0].function.parameters", [MAX_SCHEMA_BYTES + 1]),
        ("tools", [MAX_SCHEMA_BYTES] * (MAX_SCHEMAS_BYTES // MAX_SCHEMA_BYTES) + [100]),
    ],
)
def test_larger_ones_are_refused(field, sizes):
    with pytest.raises(RequestError) as refused:
        check_schemas(chat_request(tools=tools(*sizes)))
    assert refused.value.field == field


def test_all_guided_texts_are_checked():
    for field in GUIDED_TEXTS:
        with pytest.raises(RequestError, match=field):
            check_schemas(chat_request(**{field: 5}))
