"""Llama 3 and 4: tool calls as bare JSON, with or without the token that announces code."""

from ..format import COMPLETE, Format, Jump, ReuseSuffix, Spelling, State

PYTHON_TAG = "<|python_tag|>"
# Llama 4 puts these around what it would write as code.
PYTHON_START, PYTHON_END = "<|python_start|>", "<|python_end|>"

LLAMA_JSON = Format(
    "llama3_json",
    {
        State.START: {"{": ReuseSuffix(State.JSON_CALLS)},
        State.CONTENT: {PYTHON_TAG: State.JSON_CALLS, PYTHON_START: State.JSON_CALLS},
        State.JSON_CALLS: {COMPLETE: Jump.RETURN, PYTHON_END: Jump.RETURN},
    },
    aliases=("llama4_json", "llama3"),
    declared_only=True,
    source="vllm examples/tool_chat_template_llama3.1_json.jinja, "
    "0.31 tool_parsers/llama_tool_parser.py",
    spelling=Spelling(
        '{"name": "{name}", "parameters": {arguments}}', between="; ", after_text=PYTHON_TAG
    ),
)
