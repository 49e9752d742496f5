"""Kimi K2: tool calls whose ids contain the function's name, and the reasoning of K2 Thinking."""

import re

from ..format import Format, Jump, Spelling, State
from .fragments import think

CALL_BEGIN = "<|tool_call_begin|>"

KIMI_K2 = Format(
    "kimi_k2",
    {
        **think(),
        # The model sometimes writes a single call without the section around it.
        State.CONTENT: {"<|tool_calls_section_begin|>": State.TOOL_SECTION, CALL_BEGIN: State.NAME},
        State.TOOL_SECTION: {CALL_BEGIN: State.NAME, "<|tool_calls_section_end|>": Jump.RETURN},
        State.NAME: {"<|tool_call_argument_begin|>": State.ARGUMENTS},
        State.ARGUMENTS: {
            "<|tool_call_end|>": State.TOOL_SECTION,
            "<|tool_calls_section_end|>": Jump.RETURN,
        },
    },
    aliases=("kimi_k25",),
    # `functions.get_weather:0` is the id; the template needs it back unchanged.
    function=re.compile(r"(?=(?P<id>\S+:\d+\Z)?)(?:functions\.)?(?P<name>[^\s:<>{}\"]+)(?::\d*)?"),
    source="vllm 0.31 parser/kimi_k2.py; sglang function_call/kimik2_detector.py",
    spelling=Spelling(
        f"{CALL_BEGIN}functions.{{name}}:{{index}}<|tool_call_argument_begin|>"
        "{arguments}<|tool_call_end|>",
        around=("<|tool_calls_section_begin|>", "<|tool_calls_section_end|>"),
    ),
)
