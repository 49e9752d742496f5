"""The content of answers that Dynamo's HTTP layer reads again."""

from __future__ import annotations

import re

import pytest
from backedge.frontend.response.inert_content import spell_inert
from backedge.frontend.response.openai_chunks import OpenAIChunkWriter
from backedge.parsers.base import ParserRequest
from backedge.postprocess import Chunk, PostprocessedChunk
from backedge.postprocess.messages import ChoiceDelta, Delta, FunctionDelta, ToolCallDelta

from tests.slips.slips import TOOLS
from tests.slips.systems import WRITERS
from tests.support import params

CALL = '{"name": "f", "arguments": {"a": 1}}'
ARGUMENTS = {"query": "alpha beta", "limit": 5}
# Dynamo's parser, text, as it is spelled
SPELLED = [
    ("hermes", CALL[:-3], '{name: "f", "arguments": {"a": '),
    ("hermes", f"<tool_call>\n{CALL}", '< tool_call>\n{name: "f", "arguments": {"a": 1}}'),
    ("hermes", f"[{CALL}]", '[{name: "f", "arguments": {"a": 1}}]'),
    ("hermes", '{"arguments": {}, "name": "f"}', '{"arguments": {}, name: "f"}'),
    ("hermes", '{"name": "Ann", "age": 3}', '{name: "Ann", "age": 3}'),
    ("hermes", f"Here: {CALL}", 'Here: {name: "f", "arguments": {"a": 1}}'),
    ("qwen25", '[{"name": "Ann"}]', '[{name: "Ann"}]'),
    ("hermes", "Use <tool_call> here.", "Use < tool_call> here."),
    ("hermes", "and <tool_c", "and < tool_c"),
    ("pythonic", "[[f(a=1)]", "[[ f(a=1)]"),
    ("phi4", f"functools[{CALL}", 'functools [{name: "f", "arguments": {"a": 1}}'),
    ("deepseek_v3_2", "<｜DSML｜invoke name=", "< ｜DSML｜invoke name="),
    ("mistral", "[TOOL_CALLS]f[ARGS]{", "[ TOOL_CALLS]f[ ARGS]{"),
]
KEPT = [
    "a < b and c[0] = f(x) <div>hi</div>",
    f"```json\n{CALL}\n```",
    '{"people": [{"name": "Ann"}]}',
    '{"name": 3}',
    '{"name": null, "age": 3}',
    '{"user": {"name": "Ann", "arguments": 1}}',
]


@pytest.mark.parametrize(("parser", "text", "spelled"), SPELLED)
def test_what_looks_like_a_call_is_spelled_otherwise(parser: str, text: str, spelled: str) -> None:
    assert spell_inert(text, parser) == spelled


@pytest.mark.parametrize(
    "text",
    [
        '{"name": "Ann", "age": 3}',
        '[{"name": "Ann"}]',
        '{"name": "Ann", "age": 1e999}',
        r'{"name": "\ud83d", "age": 3}',
    ],
)
def test_a_json_answer_stays_json_where_a_name_makes_no_call(text: str) -> None:
    assert spell_inert(text, "llama3_json") == spell_inert(text, "unknown") == text


@pytest.mark.parametrize("text", KEPT)
def test_other_text_stays(text: str) -> None:
    assert spell_inert(text, "hermes") == spell_inert(text, "unknown") == text


def test_without_tools_only_markers_are_spelled_otherwise() -> None:
    assert spell_inert(CALL, "hermes", has_tools=False) == CALL
    assert spell_inert("<tool_call>", "hermes", has_tools=False) == "< tool_call>"


@pytest.mark.parametrize("family", WRITERS, ids=lambda family: family.name)
def test_every_format_keeps_each_character_but_quotes(family) -> None:
    parser = family.tool_parser or ""
    output = family.write("", [("search", ARGUMENTS)])
    for end in range(len(output) + 1):
        text = output[:end]
        spelled = spell_inert(text, parser)
        assert re.sub(r'[\s"]', "", spelled) == re.sub(r'[\s"]', "", text)


@pytest.mark.parametrize(
    ("stream", "parser", "calls", "is_spelled"),
    [
        (False, "hermes", 0, True),
        (True, "hermes", 0, False),
        (False, None, 0, False),
        (False, "hermes", 1, False),
    ],
)
def test_only_an_answer_that_is_read_again_is_spelled_otherwise(
    stream: bool, parser: str | None, calls: int, is_spelled: bool
) -> None:
    request = params(stream=stream, parser=ParserRequest(tools=TOOLS, tool_choice="auto"))
    writer = OpenAIChunkWriter(request, {}, [], read_again_by=parser)
    called = [ToolCallDelta(0, FunctionDelta("{}", "f"), "1", "function")] * calls
    delta = ChoiceDelta(0, Delta(content=f"<tool_call>{CALL}", tool_calls=called))
    [sent] = writer.write(Chunk(token_ids=[7]), PostprocessedChunk(deltas=[delta]))
    content = sent["data"]["choices"][0]["delta"]["content"]
    text = f"<tool_call>{CALL}"
    assert content == (spell_inert(text, "hermes") if is_spelled else text)
