"""Public chat templates: the calls that each one writes are read back, value for value."""

from __future__ import annotations

import pytest
from backedge.templates.open_calls import MARK, read_arguments

from benchmarks.samples.sample import Call
from tests.conformance.outside_templates import TEMPLATES, load_template
from tests.parsers.event_outcome import join_outcome
from tests.parsers.families.family import function

TEXT = 'first\n  "second"\tit\'s\n<b>3</b> {x} \\n Ünï 世界'
WRITE = Call("write_file", {"path": "a b.txt", "text": TEXT})
COUNT = Call("set_count", {"count": -3, "ratio": 0.5, "force": True})
SEARCH = Call(
    "search",
    {"tags": ["x", "y, z", "[q]", 'say "w"'], "options": {"a": 1, "b": {"c": [1, 2, {"d": "e"}]}}},
)
EMPTY = Call("search", {"tags": [], "options": {}})
LITERAL = Call("write_file", {"path": "3", "text": "true"})
ANSWERS = (*[(call,) for call in (WRITE, COUNT, SEARCH, EMPTY, LITERAL)], (WRITE, COUNT, SEARCH))
TOOLS = [
    {**tool, "function": {**tool["function"], "description": "It helps."}}
    for tool in (
        function("write_file", path="string", text="string"),
        function("set_count", count="integer", ratio="number", force="boolean"),
        function("search", tags={"type": "array", "items": {"type": "string"}}, options="object"),
    )
]
SAID = "BACKEDGE-ANSWER"
OPEN = (
    '{"count": -3, "ratio": ',
    '{"count": "-3\n, \\ <b>\'}</tool_call>',
    '["count", 3]',
    "count=-3 {{ count }} \\1 &amp; \u4e16",
)

# Templates of models with tools whose calls no parser of ours reads, with the reason.
NOT_READ = {
    "CohereForAI-c4ai-command-r-plus-tool_use": "a format of its own: `Action:` and a code block",
    "meetkai-functionary-medium-v3.2": "a format of its own: the name alone on a line",
    "tool_chat_template_gemma3_pythonic": "writes no comma between arguments",
    "tool_chat_template_llama3.2_pythonic": "writes strings without quotes",
    "tool_chat_template_toolace": "writes strings without quotes",
    "LFM2-8B-A1B": "writes no calls",
    "LFM2.5-Instruct": "writes no calls",
}
# Templates that cannot write an answer, or write another one, with the number of such answers.
ONE_CALL = "writes one call alone"
OTHER_ANSWERS = {
    "GigaChat3-10B-A1.8B": (1, ONE_CALL),
    "GigaChat3.1-10B-A1.8B": (1, ONE_CALL),
    "openai-gpt-oss-120b": (1, ONE_CALL),
    "tool_chat_template_llama4_pythonic": (2, "writes a backslash without escaping it"),
    **dict.fromkeys(
        (
            *("meta-llama-Llama-3.1-8B-Instruct", "meta-llama-Llama-3.2-3B-Instruct"),
            *("meta-llama-Llama-3.3-70B-Instruct", "tool_chat_template_llama3.1_json"),
            "tool_chat_template_llama3.2_json",
        ),
        (1, ONE_CALL),
    ),
    "LFM2.5-8B-A1B": (2, "does not escape a backslash between quotes"),
    **dict.fromkeys(
        ("Kimi-K2-Instruct", "Kimi-K2-Thinking"),
        (len(ANSWERS), "appends to a list, which no sandbox of templates allows"),
    ),
    "fireworks-ai-llama-3-firefunction-v2": (len(ANSWERS), "wants a variable `functions`"),
    **dict.fromkeys(
        (
            *("deepseek-ai-DeepSeek-R1-Distill-Llama-8B", "tool_chat_template_glm4"),
            "ibm-granite-granite-3.3-2B-Instruct",
        ),
        (len(ANSWERS), "writes no calls"),
    ),
}


@pytest.mark.parametrize("name", TEMPLATES)
def test_no_template_writes_more_line_breaks_before_a_call_than_its_format(name: str) -> None:
    template = load_template(name)
    if template.format is None:
        return
    for turn in template.write([(EMPTY.name, EMPTY.arguments)], TOOLS, content=SAID):
        after = turn.partition(SAID)[2]
        assert len(after) - len(after.lstrip()) <= template.format.breaks_before_calls


@pytest.mark.parametrize("arguments", OPEN)
@pytest.mark.parametrize("name", TEMPLATES)
def test_an_open_call_is_shown_as_it_was_written(name: str, arguments: str) -> None:
    template = load_template(name)
    marked = read_arguments(arguments)
    assert marked == {MARK: arguments}
    whole = list(template.write([(COUNT.name, COUNT.arguments)], TOOLS))
    turns = list(template.write([(COUNT.name, marked)], TOOLS))
    # What refuses no good call refuses none that is open.
    assert len(turns) >= len(whole)
    if any(str(COUNT.arguments["count"]) in turn for turn in whole):
        assert any(arguments in turn for turn in turns)
        assert MARK not in turns[0]
        assert "BACKEDGE-OPEN" not in turns[0]


@pytest.mark.parametrize("name", TEMPLATES)
def test_calls_are_read_back(name: str) -> None:
    template = load_template(name)
    if template.format is None:
        assert name in NOT_READ or not template.evidence.takes_tools
        return
    assert name not in NOT_READ

    def read_back(calls: tuple[Call, ...]) -> bool:
        turns = template.write([(call.name, call.arguments) for call in calls], TOOLS)
        return any(join_outcome(template.read(turn, TOOLS)).calls == calls for turn in turns)

    others = [calls for calls in ANSWERS if not read_back(calls)]
    assert len(others) == OTHER_ANSWERS.get(name, (0, ""))[0], others
