"""ERNIE 4.5's tool calls, and its reasoning with an answer in tags."""

from ..format import Format, Jump, State

ERNIE45 = Format(
    "ernie45",
    {
        # Line breaks around the tags are markup, too.
        State.START: {"<think>": State.REASONING, "<response>": State.START, "\n": State.START},
        State.REASONING: {"</think>": State.START},
        State.CONTENT: {"</response>": State.IGNORED, "<tool_call>": State.JSON_CALLS},
        State.IGNORED: {"<tool_call>": State.JSON_CALLS},
        State.JSON_CALLS: {"</tool_call>": Jump.RETURN},
    },
    source="vllm 0.31 tool_parsers/ernie45_tool_parser.py, reasoning/ernie45_reasoning_parser.py",
)
