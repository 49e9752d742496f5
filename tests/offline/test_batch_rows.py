"""A row as a request: the fields of a body, options of a row, images, what is refused."""

from __future__ import annotations

import base64
import dataclasses
from pathlib import Path
from typing import Any

import pytest
from backedge.offline.batch_job import OPTION_FIELDS, RowReader
from backedge.offline.contracts import (
    GenerationOptions,
    TextGenerationRequest,
    VlmGenerationRequest,
)
from backedge.offline.rows import RowFailure

MESSAGES = [{"role": "user", "content": "Hi"}]
OPTIONS = GenerationOptions(temperature=0, max_new_tokens=20, stop=["x"])
READER = RowReader(OPTIONS, Path("/data"), ["tiny", "models/tiny"])
URL = "/v1/chat/completions"


def batch_row(**body: Any) -> dict[str, Any]:
    full = {"model": "tiny", "messages": MESSAGES, **body}
    return {"custom_id": "a", "method": "POST", "url": URL, "body": full}


def fail(row: dict[str, Any]) -> tuple[str, str]:
    with pytest.raises(RowFailure) as caught:
        READER.read(row, 1)
    return caught.value.error.kind, caught.value.error.message


def test_plain_rows() -> None:
    assert READER.read({"prompt": "Hi", "label": 3}, 7) == TextGenerationRequest(
        prompt="Hi", id="line-7"
    )
    tools = [{"type": "function", "function": {"name": "f"}}]
    row = {"id": 5, "messages": MESSAGES, "tools": tools, "tool_choice": None, "temperature": 1}
    options = dataclasses.replace(OPTIONS, temperature=1)
    assert READER.read(row, 7) == TextGenerationRequest(
        messages=MESSAGES, tools=tools, id="5", options=options
    )


def test_a_row_names_an_adapter_as_its_model() -> None:
    reader = dataclasses.replace(READER, lora=["own"])
    plain = {"prompt": "Hi", "id": "a"}
    rows = [batch_row(model="own"), batch_row(), plain | {"model": "own"}, plain | {"model": "x"}]
    assert [reader.read(row, 1).lora for row in rows] == ["own", None, "own", None]
    with pytest.raises(RowFailure, match="must be tiny or models/tiny or own, not 'x'"):
        reader.read(batch_row(model="x"), 1)


@pytest.mark.parametrize("start", [{"prompt": "Hi"}, {"messages": MESSAGES}])
def test_a_plain_row_has_the_options_of_a_body(start: dict[str, Any]) -> None:
    fields: dict[str, Any] = {
        "max_tokens": 3,
        "temperature": 0.5,
        "stop": ["a"],
        "n": 2,
        "seed": 1,
        "chat_template_kwargs": {"a": 1},
        "top_k": None,
    }
    read = READER.read({**start, **fields}, 1).options
    assert read == READER.read(batch_row(**fields), 1).options
    assert read is not None
    assert (read.max_new_tokens, read.n, read.seed) == (3, 2, 1)
    with pytest.raises(RowFailure, match="`n` must be"):
        READER.read({**start, "n": 1000}, 1)


def test_rows_say_what_servers_accept() -> None:
    fields: dict[str, Any] = {
        "min_p": 0.1,
        "presence_penalty": 1,
        "frequency_penalty": -1,
        "min_tokens": 2,
        "logit_bias": {"7": -100},
        "ignore_eos": True,
    }
    neutral = {"best_of": 1, "echo": False, "skip_special_tokens": True, "length_penalty": 1.0}
    read = READER.read(batch_row(**fields, **neutral, reasoning_effort="low"), 1).options
    expected = dataclasses.replace(
        OPTIONS, chat_template_kwargs={"reasoning_effort": "low"}, **fields
    )
    assert read == expected
    assert fail(batch_row(best_of=2)) == (
        "request",
        "`body.best_of` is not supported here; leave it out.",
    )
    assert "`reasoning_effort` must be a string" in fail(batch_row(reasoning_effort=5))[1]


def test_what_holds_an_answer_of_any_row() -> None:
    fields: dict[str, Any] = {"response_format": {"type": "json_object"}}
    expected = TextGenerationRequest(messages=MESSAGES, id="a", **fields)
    assert READER.read({"id": "a", "messages": MESSAGES, **fields}, 1) == expected
    body = READER.read(batch_row(**fields), 1)
    assert dataclasses.replace(body, options=None) == expected
    choices = {"guided_choice": ["x"], "tools": 5}
    assert READER.read({"id": "a", "prompt": "Hi", **choices}, 1) == TextGenerationRequest(
        prompt="Hi", id="a", guided_choice=["x"]
    )


def test_a_body_sets_options_of_its_row() -> None:
    request = READER.read(
        batch_row(
            max_completion_tokens=5,
            temperature=None,
            top_p=0.5,
            stop="end",
            include_stop_str_in_output=True,
            logprobs=True,
            top_logprobs=2,
            chat_template_kwargs={"enable_thinking": True},
            parallel_tool_calls=False,
            stream=False,
            user="u",
        ),
        1,
    )
    assert request == TextGenerationRequest(
        id="a",
        messages=MESSAGES,
        parallel_tool_calls=False,
        options=GenerationOptions(
            temperature=0,
            max_new_tokens=5,
            top_p=0.5,
            stop="end",
            include_stop=True,
            logprobs=2,
            chat_template_kwargs={"enable_thinking": True},
        ),
    )


@pytest.mark.parametrize(
    "body",
    [
        {"stop": [11]},
        {"metadata": {"backedge": {"stop_token_ids": [11]}}},
        {"metadata": {"backedge": '{"stop_token_ids": [11]}', "mine": 5}},
    ],
)
def test_token_ids_stand_where_a_server_takes_them(body: dict[str, Any]) -> None:
    request = READER.read(batch_row(**body), 1)
    stop = () if "stop" in body else OPTIONS.stop
    assert request.options == dataclasses.replace(OPTIONS, stop=stop, stop_token_ids=[11])


def test_options_in_metadata_are_fields_of_the_body() -> None:
    options = {"no_stop_trim": True, "include_reasoning": True}
    request = READER.read(batch_row(metadata={"backedge": options}), 1)
    assert request.options == dataclasses.replace(OPTIONS, include_stop=True)
    for given, message in (
        ({"return_token_ids": True}, "`metadata.backedge.return_token_ids` is not supported here"),
        ([1], "`metadata.backedge` must be an object, not [1]."),
        ("{", "`metadata.backedge` must be an object, not '{'."),
    ):
        assert fail(batch_row(metadata={"backedge": given}))[1].startswith(message)


def test_a_body_without_options_has_the_batch_s() -> None:
    request = READER.read(batch_row(logprobs=False), 1)
    assert request.options == OPTIONS


def test_every_option_of_a_body_exists() -> None:
    assert set(OPTION_FIELDS.values()) <= set(GenerationOptions.__dataclass_fields__)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (batch_row(model="other"), "`body.model` must be tiny or models/tiny, not 'other'."),
        (batch_row(stream=True), "`body.stream` must be false, not True."),
        (batch_row(prompt_logprobs=1), "`body.prompt_logprobs` is not supported here; leave"),
        (batch_row(max_tokens=0), "`max_tokens` must be an integer"),
        (batch_row(max_completion_tokens=0), "`max_completion_tokens` must be an integer"),
        (batch_row(include_stop_str_in_output=5), "`include_stop_str_in_output` must be"),
        (batch_row(messages=None), "`body.messages` is missing."),
        (
            batch_row(metadata={"backedge": {"stop_regex": "a"}}),
            "`metadata.backedge.stop_regex` is not supported here",
        ),
        (batch_row(temperature="hot"), "`temperature` must be a number"),
        (batch_row(stop=[""]), "`stop` must be one or more non-empty strings"),
        (batch_row(stop=5), "`stop` must be"),
        (batch_row(stop_token_ids=7), "`stop_token_ids` must be"),
        (batch_row(n=2), "`temperature` must be greater than 0 to ensure diverse outputs when n"),
        (batch_row(n=1000), "`n` must be an integer from 1 to 128, not 1000"),
        (batch_row(chat_template_kwargs=[1]), "`chat_template_kwargs` must be a mapping, not [1]"),
        (batch_row(logprobs=5), "`logprobs` must be true or false, not 5."),
        (batch_row(top_logprobs=5), "`top_logprobs` requires `logprobs`"),
        (batch_row(logprobs=True, top_logprobs=50), "`top_logprobs` must be"),
        (batch_row() | {"body": [1]}, "`body` must be an object, not [1]."),
        (batch_row() | {"url": "/v1/embeddings"}, f"`url` must be {URL}, not '/v1/embeddings'."),
        (batch_row() | {"method": "GET"}, "`method` must be POST, not 'GET'."),
    ],
)
def test_a_field_that_is_wrong_is_named(row: dict[str, Any], message: str) -> None:
    kind, found = fail(row)
    assert kind == "request"
    assert found.startswith(message)


def parts(*sources: Any) -> list[dict[str, Any]]:
    images = [{"type": "image_url", "image_url": source} for source in sources]
    return [{"role": "user", "content": [{"type": "text", "text": "What?"}, *images]}]


MARKED = [{"role": "user", "content": [{"type": "text", "text": "What?"}, {"type": "image"}]}]
PNG = b"\x89PNG\r\n"
DATA = f"data:image/png;base64,{base64.b64encode(PNG).decode()}"


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ({"prompt": "What?", "image": "a.png"}, {"prompt": "What?", "image": Path("/data/a.png")}),
        (
            {"messages": MESSAGES, "image": "/other/a.png"},
            {"messages": MESSAGES, "image": Path("/other/a.png")},
        ),
        ({"messages": MESSAGES, "image": DATA}, {"messages": MESSAGES, "image": PNG}),
        (
            {"messages": parts({"url": "file:///a.png"})},
            {"messages": MARKED, "image": Path("/a.png")},
        ),
        ({"messages": parts(DATA)}, {"messages": MARKED, "image": PNG}),
        (
            {"messages": [{"role": "user", "content": [{"type": "image", "image": "a.png"}]}]},
            {
                "messages": [{"role": "user", "content": [{"type": "image"}]}],
                "image": Path("/data/a.png"),
            },
        ),
    ],
)
def test_rows_with_an_image(row: dict[str, Any], expected: dict[str, Any]) -> None:
    assert READER.read(row, 3) == VlmGenerationRequest(id="line-3", **expected)


@pytest.mark.parametrize(
    "row",
    [{"messages": parts("a.png", {"url": DATA})}, {"prompt": "a", "image": ["a.png", DATA]}],
    ids=["parts", "field"],
)
def test_a_row_with_several_images(row: dict[str, Any]) -> None:
    request = READER.read(row, 1)
    assert isinstance(request, VlmGenerationRequest)
    assert request.image == [READER.folder / "a.png", PNG]


def test_a_body_with_an_image() -> None:
    request = READER.read(batch_row(messages=parts({"url": DATA}), max_tokens=3), 1)
    assert isinstance(request, VlmGenerationRequest)
    assert request.image == PNG
    assert request.messages == MARKED
    assert request.options is not None
    assert request.options.max_new_tokens == 3


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"prompt": "a", "image": 7}, "the image must not be 7, but a file's path"),
        ({"prompt": "a", "image": ""}, "the image must not be ''"),
        ({"messages": parts({})}, "the image must not be None"),
        (
            {"messages": parts("data:image/png;base64,!!")},
            "the image must not be 'data:image/png;base64,!!'",
        ),
        ({"messages": parts("data:image/png,abc")}, "the image must not be 'data:image/png,abc'"),
        ({"messages": parts(*["a.png"] * 17)}, "the row has 17 images; at most 16"),
        ({"prompt": "a", "image": ["a.png"] * 17}, "the row has 17 images; at most 16"),
        ({"messages": parts("a.png"), "image": "b.png"}, "the row has images in `image` and in"),
    ],
)
def test_an_image_that_cannot_be_is_named(row: dict[str, Any], message: str) -> None:
    kind, found = fail(row)
    assert kind == "image"
    assert found.startswith(message)
