"""IBM Granite 3.0 and later: tool calls and reasoning; Granite 20B Function Calling."""

from ..format import COMPLETE, Format, Jump, Spelling, State
from .fragments import JSON_CALL, call_array, json_calls, think

GRANITE = Format(
    "granite",
    {
        # Quantized models sometimes write "Here's".
        **think(
            ("Here is my thought process:", "Here's my thought process:"),
            ("Here is my response:", "Here's my response:"),
        ),
        **json_calls(("<|tool_call|>", "<tool_call>"), COMPLETE),
    },
    source="vllm 0.31 parser/granite.py, reasoning/granite_reasoning_parser.py",
    spelling=call_array("<|tool_call|>", ""),
)

FUNCTION_CALL = "<function_call>"

GRANITE_20B_FC = Format(
    "granite-20b-fc",
    {
        State.CONTENT: {FUNCTION_CALL: State.JSON_CALLS},
        State.JSON_CALLS: {COMPLETE: Jump.RETURN},
    },
    source="vllm examples/tool_chat_template_granite_20b_fc.jinja, "
    "0.31 tool_parsers/granite_20b_fc_tool_parser.py",
    spelling=Spelling(f"{FUNCTION_CALL} {JSON_CALL}", between="\n"),
)
