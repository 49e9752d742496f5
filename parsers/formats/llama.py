"""Llama 3 and 4: tool calls as bare JSON, with or without the token that announces code."""

from ..format import COMPLETE, Format, Jump, ReuseSuffix, Spelling, State

PYTHON_TAG = "<|python_tag|>"

LLAMA_JSON = Format(
    "llama3_json",
    {
        State.START: {"{": ReuseSuffix(State.JSON_CALLS)},
        State.CONTENT: {PYTHON_TAG: State.JSON_CALLS},
        State.JSON_CALLS: {COMPLETE: Jump.RETURN},
    },
    aliases=("llama4_json", "llama3"),
    declared_only=True,
    source="vllm examples/tool_chat_template_llama3.1_json.jinja, "
    "0.31 tool_parsers/llama_tool_parser.py",
    spelling=Spelling(
        '{"name": "{name}", "parameters": {arguments}}', between="; ", after_text=PYTHON_TAG
    ),
)
