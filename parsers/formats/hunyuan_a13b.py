"""Hunyuan A13B's tool calls, and its reasoning with an answer in tags, all plain text, line breaks included."""

from ..format import Format, Jump, State

HUNYUAN_A13B = Format(
    "hunyuan_a13b",
    {
        State.START: {
            "<think>\n": State.REASONING,
            "<answer>\n": State.START,
            "<answer>": State.START,
            "助手：": State.CONTENT,  # what the template asks for in front of an answer without calls
        },
        State.REASONING: {
            "\n</think>\n<answer>\n": State.START,
            "\n</think>\n": State.START,
            "</think>\n": State.START,
        },
        State.CONTENT: {
            "\n</answer>": State.IGNORED,
            "</answer>": State.IGNORED,
            "<tool_calls>": State.JSON_CALLS,
        },
        State.IGNORED: {"<tool_calls>": State.JSON_CALLS},
        State.JSON_CALLS: {"</tool_calls>": Jump.RETURN},
    },
    source="vllm examples/tool_chat_template_hunyuan_a13b.jinja, 0.31 tool_parsers/hunyuan_a13b_tool_parser.py, "
    "reasoning/hunyuan_a13b_reasoning_parser.py",
)
