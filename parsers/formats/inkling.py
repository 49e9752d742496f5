"""Inkling: each message begins with a token for its kind: text, reasoning or a call."""

import re

from ..arguments.json_calls import CallKeys
from ..format import Format, Spelling, State

MESSAGE = "<|message_model|>"
ENDS = {"<|end_message|>": State.START, "<|content_model_end_sampling|>": State.START}
KINDS = {
    "<|content_text|>": State.CONTENT,
    "<|content_thinking|>": State.REASONING,
    "<|content_invoke_tool_json|>": State.JSON_CALLS,
    # Calls that are not JSON are shown, as vLLM does.
    "<|content_invoke_tool_text|>": State.CONTENT,
    "<|content_tool_error|>": State.CONTENT,
}

INKLING = Format(
    "inkling",
    {
        State.HEADER: {MESSAGE: State.HEADER, **KINDS},
        State.CONTENT: {MESSAGE: State.HEADER, **KINDS, **ENDS},
        State.REASONING: {MESSAGE: State.HEADER, **KINDS, **ENDS},
        State.JSON_CALLS: {MESSAGE: State.HEADER, **ENDS},
        State.IGNORED: {MESSAGE: State.HEADER, **ENDS},
    },
    # The prompt ends with MESSAGE; the function's name may precede the kind.
    initial_state=State.HEADER,
    header=re.compile(r"[\w.:/$\-]*"),
    keys=CallKeys(arguments=("args", "arguments", "parameters")),
    source="vllm 0.31 parser/inkling.py; sglang function_call/inkling_detector.py",
    thought=("<|content_thinking|>", "<|end_message|>", MESSAGE, "<|content_text|>"),
    spelling=Spelling(
        '<|content_invoke_tool_json|>{"name": "{name}", "args": {arguments}}<|end_message|>',
        between=MESSAGE,
    ),
)
