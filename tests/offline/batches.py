"""What the tests of generation without a server share."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import pytest
from backedge.base.errors import SetupError
from backedge.offline import (
    GenerationEngine,
    GenerationOptions,
    GenerationResult,
    ModelLoadConfig,
    TextGenerationRequest,
)

from tests.support import TINY_MODEL, TRANSCRIPTS, Transcript

HELLO = TRANSCRIPTS["plain_text"]
# Ends at a stop string.
LETTERS = TRANSCRIPTS["stop_string"]


def replay_engine(plugins: Any = (), **fields: Any) -> GenerationEngine:
    return GenerationEngine(ModelLoadConfig(TINY_MODEL, backend="replay", **fields), plugins)


def ask(text: str, **fields: Any) -> TextGenerationRequest:
    return TextGenerationRequest(messages=[{"role": "user", "content": text}], **fields)


def request(transcript: Transcript, **options: Any) -> TextGenerationRequest:
    """Return the row of a transcript. options: those of the row, besides the transcript's."""
    return TextGenerationRequest(
        id=transcript["id"],
        messages=transcript["messages"],
        tools=transcript.get("tools"),
        tool_choice=transcript.get("tool_choice"),
        response_format=transcript.get("response_format"),
        options=GenerationOptions(
            **{
                "max_new_tokens": transcript.get("max_tokens"),
                "stop": transcript.get("stop", []),
                "chat_template_kwargs": transcript.get("chat_template_kwargs", {}),
                "temperature": 0,
                **options,
            }
        ),
    )


def letters(number: int, **options: Any) -> TextGenerationRequest:
    """Return one of several rows of `LETTERS`."""
    return dataclasses.replace(request(LETTERS, **options), id=str(number))


def check_batches_in_succession(engine: GenerationEngine) -> None:
    """Whatever becomes of a batch, the next one of the same engine has its own answers."""
    rows = [letters(number) for number in range(3)]

    def check_next() -> None:
        results = engine.generate_text_batch(rows)
        expected = LETTERS["expect"]["content"], None
        assert [(result.text, result.error) for result in results] == [expected] * 3

    def fail() -> Iterator[TextGenerationRequest]:
        yield rows[0]
        raise KeyError("the user's")

    def ask_the_same() -> Iterator[TextGenerationRequest]:
        yield rows[0]
        engine.generate_text_batch(rows)

    failures: list[tuple[Any, type[Exception], str]] = [
        (fail, KeyError, "the user's"),
        (ask_the_same, SetupError, "the engine is at work on a batch"),
    ]
    for requests, error, message in failures:
        with pytest.raises(error, match=message):
            list(engine.iterate_text_batch(requests()))
        check_next()
    for end in (check_next, engine.close):
        left = engine.iterate_text_batch(rows)
        next(left)
        end()
        with pytest.raises(SetupError, match="began another batch, before this one had ended"):
            next(left)
        assert list(left) == []
        check_next()


PARSED: dict[str, Any] = {
    "message": True,
    "tool_call_parser": "hermes",
    "reasoning_parser": "qwen3",
}


def message(result: GenerationResult) -> dict[str, Any]:
    """Return a parsed message in the form in which the transcripts expect it."""
    assert result.message is not None, result.error
    return {
        "reasoning": result.message.reasoning,
        "content": result.message.content,
        "tool_calls": [
            {"name": call.name, "arguments": call.arguments} for call in result.message.tool_calls
        ],
        "finish_reason": result.message.finish_reason,
    }
