"""The terminal view: a line for each token, and nothing that a terminal would obey."""

from __future__ import annotations

import click
import msgspec
import pytest
from backedge.base.hidden_characters import is_hidden
from backedge.base.terminal import format_line
from backedge.cli.inspect.terminal import render_text
from backedge.parsers.base import ParserNames

from tests.cli.inspect.inspecting import OTHER, inspect_it
from tests.cli.recorded import record_text, record_transcript
from tests.support import NAMES, TRANSCRIPTS, parser_request


def lines_of(*names: ParserNames, text: str | None = None) -> list[str]:
    recording = record_transcript("reasoning_call") if text is None else record_text(text)
    return [click.unstyle(format_line(line)) for line in render_text(inspect_it(recording, *names))]


def test_each_token_has_its_line() -> None:
    lines = lines_of()
    [call] = [line for line in lines if "<tool_call>  " in line]
    assert call.split()[:4] == ["20", "554", "<tool_call>", "JSON_CALLS"]
    assert "possible call" in call
    assert [line.split()[0] for line in lines if "REASONING" in line][:3] == ["1", "2", "3"]


@pytest.mark.parametrize(
    "says",
    [
        "39 tokens in 13 chunks, first token after 10.0 ms",
        "parsers qwen3+hermes (linear)",
        "beside qwen3+qwen3_coder (linear)",
        "first difference at token 32",
        'first difference: call 0 "get_weather"',
        "sent: call get_weather, arguments of 1 character",
        "finish tool_calls",
    ],
)
def test_says(says: str) -> None:
    assert says in "\n".join(lines_of(OTHER))


def test_the_same_is_said_to_be_the_same() -> None:
    assert "  both give the same" in lines_of(NAMES)


def test_what_a_terminal_would_obey_is_written_out() -> None:
    hostile = "</think>\x1b[2J\x07\u202eabc\u200b\r\n\x9b1m"
    lines = lines_of(text=hostile)
    assert not any(is_hidden(char) for line in lines for char in line)
    assert r"\x1b" in "".join(lines)


def test_the_place_of_a_malformed_call_is_shown() -> None:
    tools = TRANSCRIPTS["reasoning_call"]
    text = '</think><tool_call>{"name": "get_weather", "arguments": {"city": }}</tool_call>'
    recording = record_text(text, parser=parser_request(tools))
    lines = [click.unstyle(format_line(line)) for line in render_text(inspect_it(recording))]
    [line] = [line for line in lines if "malformed 0 invalid_json" in line]
    assert "}}" in line


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"restored_turns": 2}, "  restored of earlier answers: reasoning of 2"),
        (
            {"restored_turns": 2, "exact_turns": 3},
            "  restored of earlier answers: reasoning of 2, token ids of 3",
        ),
    ],
)
def test_restored_turns_are_shown(fields: dict[str, int], says: str) -> None:
    recording = record_transcript("reasoning_call")
    assert "restored" not in "\n".join(map(format_line, render_text(inspect_it(recording))))
    changed = msgspec.structs.replace(recording.params, **fields)
    lines = render_text(inspect_it(msgspec.structs.replace(recording, params=changed)))
    assert says in [click.unstyle(format_line(line)) for line in lines]
