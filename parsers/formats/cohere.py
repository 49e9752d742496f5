"""Cohere Command A's tool calls and reasoning; Command A Plus puts its answer in other tags."""

from ..arguments.json_calls import CallKeys
from ..format import Format, Jump, State

COHERE_COMMAND = Format(
    "cohere_command3",
    {
        State.START: {"<|START_THINKING|>": State.REASONING},
        State.REASONING: {"<|END_THINKING|>": State.START},
        State.CONTENT: {
            "<|START_RESPONSE|>": State.START,
            "<|END_RESPONSE|>": State.START,
            "<|START_TEXT|>": State.START,
            "<|END_TEXT|>": State.START,
            "<|START_ACTION|>": State.JSON_CALLS,
        },
        State.JSON_CALLS: {"<|END_ACTION|>": Jump.RETURN},
    },
    aliases=("cohere_command4",),
    # Its own ids count from 0 in each turn, so they are not unique in a conversation.
    keys=CallKeys(name=("tool_name", "name"), arguments=("parameters", "arguments"), id=()),
    source="vllm 0.31 parser/cohere_command.py; sglang function_call/cohere_command4_detector.py",
)
