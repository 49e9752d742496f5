"""Muse Glimmer: addressed messages; those to a tool contain ATEM invocations."""

import re

from ..format import Format, Jump, ReuseSuffix, Spelling, State
from .fragments import invocation, invoke

_MESSAGES = {"<|start|>": State.HEADER, "<|eom|>": State.START, "<|eot|>": State.START}

MUSE_GLIMMER = Format(
    "muse_glimmer",
    {
        State.START: _MESSAGES,
        State.CONTENT: _MESSAGES,
        # The model sometimes omits the message marker between a thought and a tool.
        State.REASONING: {**_MESSAGES, "to=": ReuseSuffix(State.HEADER, 2)},
        State.HEADER: {"<|message|>": Jump.BY_HEADER},
        State.IGNORED: _MESSAGES,
        State.TOOL_SECTION: {
            **_MESSAGES,
            "<atem:function_calls>": State.TOOL_SECTION,
            **invoke("atem:"),
            "</atem:function_calls>": State.TOOL_SECTION,
        },
        **invocation("atem:", then={"</atem:function_calls>": State.TOOL_SECTION, **_MESSAGES}),
    },
    # The prompt ends inside a message's header.
    initial_state=State.HEADER,
    headers=(
        # The rest of "to=" after a thought's marker.
        (re.compile(r"o=self\Z"), State.REASONING),
        (re.compile(r"o=(?:user|commentary)\Z"), State.CONTENT),
        (re.compile(r"o=developer\Z"), State.IGNORED),
        (re.compile(r"o=\S"), State.TOOL_SECTION),
        (re.compile(r""), State.CONTENT),
    ),
    header=re.compile(r"[\w\s]*(?:=[^\s<>]*)?"),
    # The models sometimes call a tool `f` as `f.f`.
    function=re.compile(r"(?:([^\s<>\".]+)\.(?=\1\Z))?(?P<name>[^\s<>\"]+)"),
    separator="\n",
    aliases=("muse", "musespark1x"),
    strip="",
    quotes_json=True,
    undeclared_type="json",
    source="vllm 0.31 tool_parsers/muse_glimmer_tool_parser.py, "
    "reasoning/muse_glimmer_reasoning_parser.py; "
    "sglang function_call/muse_glimmer_detector.py",
    thought=(" to=self<|message|>", "<|eom|>", "<|start|>assistant", " to=user<|message|>"),
    spelling=Spelling(
        ' to={name}<|message|><atem:function_calls>\n<atem:invoke name="{name}">\n'
        "{arguments}</atem:invoke>\n</atem:function_calls>",
        between="<|eom|><|start|>assistant",
        parameters={State.VALUE: '<atem:parameter name="{key}">{value}</atem:parameter>\n'},
    ),
)
