"""Kimi K2's tool calls, whose ids hold the function's name, and K2 Thinking's reasoning."""

import re

from ..format import Format, Jump, State

CALL_BEGIN = "<|tool_call_begin|>"

KIMI_K2 = Format(
    "kimi_k2",
    {
        State.START: {"<think>": State.REASONING},
        State.REASONING: {"</think>": State.START},
        # A lone call sometimes comes without the section around it.
        State.CONTENT: {"<|tool_calls_section_begin|>": State.TOOL_SECTION, CALL_BEGIN: State.NAME},
        State.TOOL_SECTION: {CALL_BEGIN: State.NAME, "<|tool_calls_section_end|>": Jump.RETURN},
        State.NAME: {"<|tool_call_argument_begin|>": State.ARGUMENTS},
        State.ARGUMENTS: {
            "<|tool_call_end|>": State.TOOL_SECTION,
            "<|tool_calls_section_end|>": Jump.RETURN,
        },
    },
    # `functions.get_weather:0` is the id, and the template wants it back unchanged.
    function=re.compile(r"(?=(?P<id>\S+:\d+\Z)?)(?:functions\.)?(?P<name>[^\s:<>{}\"]+)(?::\d*)?"),
    source="vllm 0.31 parser/kimi_k2.py; sglang function_call/kimik2_detector.py",
)
