"""Hunyuan A13B: tool calls, and reasoning with the answer between tags.

Every marker is plain text, line breaks included.
"""

from ..format import Format, State
from .fragments import call_array, json_calls, merge_states, think

HUNYUAN_A13B = Format(
    "hunyuan_a13b",
    merge_states(
        think("<think>\n", ("\n</think>\n<answer>\n", "\n</think>\n", "</think>\n")),
        {
            State.START: {
                "<answer>\n": State.START,
                "<answer>": State.START,
                "助手：": State.CONTENT,  # the template asks for it before an answer without calls
            },
            State.CONTENT: {"\n</answer>": State.IGNORED, "</answer>": State.IGNORED},
            State.IGNORED: {"<tool_calls>": State.JSON_CALLS},
        },
        json_calls("<tool_calls>", "</tool_calls>"),
    ),
    source="vllm examples/tool_chat_template_hunyuan_a13b.jinja, "
    "0.31 tool_parsers/hunyuan_a13b_tool_parser.py, reasoning/hunyuan_a13b_reasoning_parser.py",
    spelling=call_array("<tool_calls>", "</tool_calls>"),
)
