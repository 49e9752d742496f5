"""Llama 3 and 4: tool calls as bare JSON, with or without the token that announces code."""

from ..format import COMPLETE, Format, Jump, ReuseSuffix, Spelling, State

PYTHON_TAG = "<|python_tag|>"
# Llama 4 puts these around what it would write as code.
PYTHON_START, PYTHON_END = "<|python_start|>", "<|python_end|>"

LLAMA_JSON = Format(
    "llama3_json",
    {
        State.START: {"{": ReuseSuffix(State.JSON_CALLS)},
        State.CONTENT: {
            # The models also write calls as Python after these (meta-llama/llama-models#266), and
            PYTHON_TAG: State.CALL_LIST,
            PYTHON_START: State.CALL_LIST,
            # tags as in Meta's prompts for functions of one's own (#169).
            "<function=": State.NAME,
        },
        State.JSON_CALLS: {COMPLETE: Jump.RETURN},
        State.CALL_LIST: {COMPLETE: Jump.RETURN, PYTHON_END: Jump.RETURN},
        State.NAME: {">": State.ARGUMENTS},
        State.ARGUMENTS: {COMPLETE: Jump.RETURN, "</function>": Jump.RETURN},
    },
    aliases=("llama4_json", "llama3"),
    declared_only=True,
    source="vllm examples/tool_chat_template_llama3.1_json.jinja, "
    "0.31 tool_parsers/llama_tool_parser.py",
    spelling=Spelling(
        '{"name": "{name}", "parameters": {arguments}}', between="; ", after_text=PYTHON_TAG
    ),
)
