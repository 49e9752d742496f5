"""IBM Granite's tool calls from 3.0 on, Granite 3.2's reasoning, and Granite 20B Function Calling."""

from ..format import COMPLETE, Format, Jump, State

GRANITE = Format(
    "granite",
    {
        # Quantized models sometimes write "Here's".
        State.START: {
            "Here is my thought process:": State.REASONING,
            "Here's my thought process:": State.REASONING,
        },
        State.REASONING: {"Here is my response:": State.START, "Here's my response:": State.START},
        State.CONTENT: {"<|tool_call|>": State.JSON_CALLS, "<tool_call>": State.JSON_CALLS},
        State.JSON_CALLS: {COMPLETE: Jump.RETURN},
    },
    source="vllm 0.31 parser/granite.py, reasoning/granite_reasoning_parser.py",
)

FUNCTION_CALL = "<function_call>"

GRANITE_20B_FC = Format(
    "granite-20b-fc",
    {
        State.CONTENT: {FUNCTION_CALL: State.JSON_CALLS},
        State.JSON_CALLS: {COMPLETE: Jump.RETURN, FUNCTION_CALL: State.JSON_CALLS},
    },
    source="vllm examples/tool_chat_template_granite_20b_fc.jinja, 0.31 tool_parsers/granite_20b_fc_tool_parser.py",
)
