"""Cohere Command A: tool calls and reasoning; Command A Plus puts its answer between other tags."""

import re

from ..arguments.json_calls import CallKeys
from ..format import Format, Jump, Spelling, State
from .fragments import json_calls, merge_states, think

# Citations: <co>a fact</co: 0:[1]>, or <co: 0>a fact</co: 0>.
_CITATION = {"<co: ": State.HEADER, "</co: ": State.HEADER}

COHERE_COMMAND = Format(
    "cohere_command3",
    merge_states(
        think("<|START_THINKING|>", "<|END_THINKING|>"),
        {
            State.CONTENT: {
                "<|START_RESPONSE|>": State.START,
                "<|END_RESPONSE|>": State.START,
                "<|START_TEXT|>": State.START,
                "<|END_TEXT|>": State.START,
                "<co>": State.CONTENT,
                **_CITATION,
            },
            State.REASONING: {"<co>": State.REASONING, **_CITATION},
            State.HEADER: {">": Jump.BY_HEADER},
        },
        json_calls("<|START_ACTION|>", "<|END_ACTION|>"),
    ),
    aliases=("cohere_command4",),
    headers=((re.compile(r""), State.CONTENT),),
    header=re.compile(r"[\d:,\[\] ]+"),
    # The model's own ids start from 0 in every turn, so they are not unique in a conversation.
    keys=CallKeys(name=("tool_name", "name"), arguments=("parameters", "arguments"), id=()),
    source="vllm 0.31 parser/cohere_command.py; sglang function_call/cohere_command4_detector.py",
    spelling=Spelling(
        '{"tool_call_id": "{index}", "tool_name": "{name}", "parameters": {arguments}}',
        around=("<|START_ACTION|>[\n    ", "\n]<|END_ACTION|>"),
        between=",\n    ",
    ),
)
