"""vLLM's batch parsers on every case of every family; tables give the reason of a difference."""

from __future__ import annotations

from typing import Any

import pytest
from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionRequest
from vllm.tool_parsers import ToolParserManager

from benchmarks.samples.sample import Call, Outcome
from benchmarks.samples.tokenizers import bpe
from tests.parsers.event_outcome import parse_arguments
from tests.parsers.families import FAMILIES
from tests.parsers.families.family import TOOLS, Case, Family

ROWS = [
    pytest.param(family, case, id=f"{family.name}-{case.id}")
    for family in FAMILIES.values()
    if family.vllm is not None
    for case in family.all_cases()
    if case.expected.reasoning is None and not case.prompt and case.tools != ()
]


def batch(family: Family, case: Case) -> Outcome | str:
    """Return what vLLM's parser makes of the whole output; the exception's name if it raises."""
    tools = TOOLS if case.tools is None else case.tools
    request = ChatCompletionRequest.model_validate(
        {
            "messages": [{"role": "user", "content": "x"}],
            "tools": list(tools),
            "tool_choice": "auto",
        }
    )
    parser: Any = ToolParserManager.get_tool_parser(family.vllm or "")(
        bpe(family.markers, family.special), request.tools
    )
    try:
        found = parser.extract_tool_calls(case.output, request)
    except Exception as error:  # noqa: BLE001 - whatever it raises, it gives no result
        return type(error).__name__
    calls = tuple(
        Call(call.function.name, parse_arguments(call.function.arguments))
        for call in found.tool_calls
    )
    content = found.content or None
    return Outcome(None, (content.strip() or None) if content and calls else content, calls)


@pytest.mark.parametrize(("family", "case"), ROWS)
def test_the_batch_parser_agrees_or_the_table_says_why_not(family: Family, case: Case) -> None:
    found = batch(family, case)
    if case.vllm:
        assert found != case.expected, f"vLLM agrees now: {case.vllm}"
    else:
        assert found == case.expected
