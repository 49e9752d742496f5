"""Muse Glimmer: messages to somebody, of which those to a tool hold ATEM invocations."""

import re

from ..format import Format, Jump, State

_MESSAGES = {"<|start|>": State.HEADER, "<|eom|>": State.START, "<|eot|>": State.START}

MUSE_GLIMMER = Format(
    "muse_glimmer",
    {
        State.START: _MESSAGES,
        State.CONTENT: _MESSAGES,
        State.REASONING: _MESSAGES,
        State.HEADER: {"<|message|>": Jump.BY_HEADER},
        State.TOOL_SECTION: {
            **_MESSAGES,
            "<atem:function_calls>": State.TOOL_SECTION,
            '<atem:invoke name="': State.NAME,
            "</atem:function_calls>": State.TOOL_SECTION,
        },
        State.NAME: {'">': State.PARAMETERS},
        State.PARAMETERS: {
            '<atem:parameter name="': State.KEY,
            "</atem:invoke>": State.TOOL_SECTION,
            "</atem:function_calls>": State.TOOL_SECTION,
            **_MESSAGES,
        },
        State.KEY: {'">': State.VALUE},
        State.VALUE: {"</atem:parameter>": State.PARAMETERS},
    },
    # The prompt ends within a message's head.
    initial_state=State.HEADER,
    headers=(
        (re.compile(r"to=self\Z"), State.REASONING),
        (re.compile(r"to=user\Z"), State.CONTENT),
        (re.compile(r"to=\S"), State.TOOL_SECTION),
        (re.compile(r""), State.CONTENT),
    ),
    # A tool `f` is called as `f.f` at times.
    function=re.compile(r"(?:([^\s<>\".]+)\.(?=\1\Z))?(?P<name>[^\s<>\"]+)"),
    aliases=("muse",),
    strip="",
    undeclared_type="json",
    source="vllm 0.31 tool_parsers/muse_glimmer_tool_parser.py, reasoning/muse_glimmer_reasoning_parser.py; "
    "sglang function_call/muse_glimmer_detector.py",
)
