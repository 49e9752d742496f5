"""Options in a request's metadata."""

import pytest
from backedge.base.errors import RequestError
from backedge.frontend.request.chat_request import apply_metadata_options, decode_chat_request

REQUIRED = {"model": "m", "messages": []}
# request, what it becomes
OPTIONS = [
    ({"stop": [1, 2]}, {"stop_token_ids": [1, 2]}),
    ({"stop": ["a"]}, {"stop": ["a"]}),
    ({"metadata": {"backedge": {"stop_token_ids": [5]}, "x": "y"}}, {"stop_token_ids": [5]}),
    ({"metadata": {"backedge": {"no_stop_trim": True}}}, {"include_stop_str_in_output": True}),
    ({"metadata": {"backedge": '{"return_token_ids": true}'}}, {"return_token_ids": True}),
    ({"metadata": {"x": "y"}}, {}),
    ({"metadata": "text"}, {}),
]


@pytest.mark.parametrize(("request_", "expected"), OPTIONS)
def test_options_go_where_vllm_has_them(request_, expected):
    request = decode_chat_request({**REQUIRED, **request_})
    apply_metadata_options(request)
    fields = {name: value for name, value in request.raw.items() if name != "metadata"}
    assert fields == {**REQUIRED, **expected}
    # The typed fields say the same as the JSON.
    stop, metadata = request.stop, request.metadata
    again = decode_chat_request(request.raw)
    assert (again, again.stop, again.metadata) == (request, stop, metadata)


@pytest.mark.parametrize(
    ("given", "field"),
    [
        (3, "metadata.backedge"),
        ("no json", "metadata.backedge"),
        ({"colour": "red"}, "metadata.backedge.colour"),
        ({"stop_token_ids": "x"}, "metadata.backedge.stop_token_ids"),
        ({"no_stop_trim": "x"}, "metadata.backedge.no_stop_trim"),
        ({"stop_regex": "a+"}, "metadata.backedge.stop_regex"),
        ({"return_token_ids": 1}, "metadata.backedge.return_token_ids"),
    ],
)
def test_bad_options_are_named(given, field):
    with pytest.raises(RequestError) as caught:
        apply_metadata_options(decode_chat_request({**REQUIRED, "metadata": {"backedge": given}}))
    assert caught.value.field == field
