"""Which field a check of vLLM is about."""

from __future__ import annotations

from typing import Any

import pytest
from backedge.base.errors import RequestError
from backedge.engines.vllm.frontend_errors import naming_fields
from dynamo.llm.exceptions import HttpError
from pydantic import ValidationError
from vllm.entrypoints.openai.chat_completion.protocol import (
    ChatCompletionRequest,
    ChatCompletionToolsParam,
)
from vllm.exceptions import VLLMValidationError

USER = {"role": "user", "content": "hi"}
LONG = (
    "The decoder prompt (length 3264) plus the number of requested output tokens (at least 1) is "
    "longer than the maximum model length of 2048. Make sure"
)


def refuse(error: Exception, cause: Exception | None = None) -> None:
    with naming_fields({"n": 2}):
        raise error from cause


@pytest.mark.parametrize(
    ("error", "cause", "text"),
    [
        (HttpError(400, LONG), None, "`messages` has 3264 tokens; at most 2047"),
        (
            HttpError(400, "x"),
            VLLMValidationError("only with", parameter="stream_options", value=5),
            "`stream_options` cannot be 5: only with",
        ),
        (
            HttpError(400, "x"),
            VLLMValidationError("n must be 1 when using greedy sampling, got 2."),
            "`n` cannot be 2: n must be 1",
        ),
    ],
)
def test_what_vllm_says_of_a_field(error: Exception, cause: Exception | None, text: str) -> None:
    with pytest.raises(RequestError) as refused:
        refuse(error, cause)
    assert text in str(refused.value)


@pytest.mark.parametrize(
    ("error", "cause"),
    [
        (HttpError(404, "x"), None),
        (HttpError(400, "x"), VLLMValidationError("of no field")),
        (KeyError("x"), None),
    ],
)
def test_other_errors_stay_as_they_are(error: Exception, cause: Exception | None) -> None:
    with pytest.raises(type(error)) as raised:
        refuse(error, cause)
    assert raised.value is error


def test_parts_of_messages_are_validated_by_themselves() -> None:
    with pytest.raises(RequestError) as refused, naming_fields({}):
        ChatCompletionToolsParam.model_validate({"function": 5})
    assert refused.value.field == "messages"


@pytest.mark.parametrize(
    ("field", "fields"),
    [
        ("reasoning_effort", {"reasoning_effort": 5}),
        ("tools[0].function.name", {"tools": [{"type": "function", "function": {}}]}),
        (
            "stream_options.include_usage",
            {"stream": True, "stream_options": {"include_usage": "x"}},
        ),
    ],
)
def test_pydantics_path_is_that_of_the_request(field: str, fields: dict[str, Any]) -> None:
    raw = {"model": "m", "messages": [USER], **fields}
    with pytest.raises(RequestError) as refused, naming_fields(raw):
        ChatCompletionRequest.model_validate(raw)
    assert refused.value.field == field
    assert isinstance(refused.value.__cause__, ValidationError)
