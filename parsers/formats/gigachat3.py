"""GigaChat 3: a tool call is a message of its own after the answer."""

from ..format import COMPLETE, Format, Jump, Spelling, State
from .fragments import JSON_CALL

MESSAGE_SEPARATOR = "<|message_sep|>"

GIGACHAT3 = Format(
    "gigachat3",
    {
        State.CONTENT: {MESSAGE_SEPARATOR: State.IGNORED, "<|function_call|>": State.JSON_CALLS},
        State.IGNORED: {"<|role_sep|>": State.JSON_CALLS},  # the role, "function call"
        State.JSON_CALLS: {COMPLETE: Jump.RETURN, MESSAGE_SEPARATOR: State.IGNORED},
    },
    source="vllm 0.31 tool_parsers/gigachat3_tool_parser.py; "
    "sglang function_call/gigachat3_detector.py",
    spelling=Spelling(f"{MESSAGE_SEPARATOR}\n\nfunction call<|role_sep|>\n{JSON_CALL}"),
)
