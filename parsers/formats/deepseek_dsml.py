"""DeepSeek V3.2 to V4.1: calls in DSML, where each parameter is marked as a string or not.

GigaChat 3.5 uses the same format with other markers.
"""

import re
from dataclasses import replace

from ..format import Format, Jump, ReuseSuffix, Spelling, State
from .fragments import think, variant

# A parameter without its end marker ends where the next one begins; in a value, other words may
# begin like it.
_VALUE_ENDS = {
    "</｜DSML｜parameter>": State.PARAMETERS,
    "<｜DSML｜parameter ": State.HEADER,
    "\n<｜DSML｜parameter ": State.HEADER,
}
# How the models write the marks around the tag's name instead: lsdefine/GenericAgent#804,
# cline/cline#13348, openclaw/openclaw#128858, AgentFlocks/flocks#687.
_BARS = ("‖", "｜｜", "|", "||")


def _with_bars(format_: Format) -> Format:
    """Return `format_` with a form of its calls for each way in which the bars are written."""
    forms = (
        variant(
            format_, format_.name, markers={"｜DSML｜": f"{bar}DSML{bar}"}, source=format_.source
        )
        for bar in _BARS
    )
    return replace(format_, forms=tuple(forms))


_DEEPSEEK_V32 = Format(
    "deepseek_v32",
    {
        State.CONTENT: {
            "<｜DSML｜function_calls>": State.TOOL_SECTION,
            # The models sometimes write another bracket.
            "‹｜DSML｜function_calls>": State.TOOL_SECTION,
            '<｜DSML｜invoke name="': State.NAME,
        },
        State.TOOL_SECTION: {
            "<｜DSML｜function_calls>": State.TOOL_SECTION,
            '<｜DSML｜invoke name="': State.NAME,
            "</｜DSML｜function_calls>": Jump.RETURN,
        },
        # The models sometimes write all parameters as one JSON object.
        State.NAME: {
            '">': State.PARAMETERS,
            '">{': ReuseSuffix(State.ARGUMENTS),
            '">\n{': ReuseSuffix(State.ARGUMENTS),
        },
        State.ARGUMENTS: {
            "</｜DSML｜invoke>": State.TOOL_SECTION,
            "</｜DSML｜function_calls>": Jump.RETURN,
        },
        State.PARAMETERS: {
            "<｜DSML｜parameter": State.HEADER,
            "</｜DSML｜parameter>": State.PARAMETERS,
            '<｜DSML｜invoke name="': State.NAME,
            "</｜DSML｜invoke>": State.TOOL_SECTION,
            "</｜DSML｜function_calls>": Jump.RETURN,
        },
        State.HEADER: {">": Jump.BY_HEADER},
        State.STRING: _VALUE_ENDS,
        State.JSON: _VALUE_ENDS,
    },
    aliases=("deepseekv32", "deepseek_v3_2"),
    headers=(
        (re.compile(r'\bname="(?P<key>[^"]*)"\W*\bstring\W*true\W*\Z'), State.STRING),
        # The models sometimes omit the attribute.
        (
            re.compile(
                r'\bname="(?P<key>[^"]*)"(?:\W*\bstring\b(?:(?!true)[^<>])*)?'
                r"\s*(?:(?<=\bfalse)|(?<![\w=]))\Z"
            ),
            State.JSON,
        ),
    ),
    strip="",
    confused=("function_calls", "tool_calls", "tool-calls", "toolcalls", "calls", "tool"),
    breaks_before_calls=2,
    source="deepseek-ai/DeepSeek-V3.2 encoding/encoding_dsv32.py; vllm 0.31 parser/deepseek_v32.py",
    spelling=Spelling(
        '<｜DSML｜invoke name="{name}">\n{arguments}\n</｜DSML｜invoke>\n',
        around=("<｜DSML｜function_calls>\n", "</｜DSML｜function_calls>"),
        parameters={
            state: f'<｜DSML｜parameter name="{{key}}" string="{is_string}">'
            "{value}</｜DSML｜parameter>\n"
            for state, is_string in ((State.STRING, "true"), (State.JSON, "false"))
        },
    ),
)

DEEPSEEK_V32 = _with_bars(_DEEPSEEK_V32)

_DEEPSEEK_V4 = variant(
    _DEEPSEEK_V32,
    "deepseek_v4",
    aliases=("deepseekv4", "deepseek-v4"),
    markers={"function_calls": "tool_calls"},
    states=think(extra_end=True),
    source="DeepSeek V4 encoding (vllm 0.31 tokenizers/deepseek_v4_encoding.py); "
    "vllm 0.31 parser/deepseek_v4.py",
)

DEEPSEEK_V4 = _with_bars(_DEEPSEEK_V4)

_DEEPSEEK_V41 = variant(
    _DEEPSEEK_V32,
    "deepseek_v41",
    aliases=("deepseekv41", "deepseek-v41"),
    markers={"｜DSML｜": "｜DSML｜ ", "function_calls": "calls"},
    states=think(extra_end=True),
    source="DeepSeek V4.1 encoding (vllm 0.31 tokenizers/deepseek_v41_encoding.py); "
    "vllm 0.31 parser/deepseek_v41.py",
)

DEEPSEEK_V41 = _with_bars(_DEEPSEEK_V41)

GIGACHAT35 = variant(
    DEEPSEEK_V32,
    "gigachat35",
    markers={"｜DSML｜": "｜GCML｜", "function_calls": "tool_calls"},
    # The separator of messages ends an answer.
    states={**think(), State.CONTENT: {"<|message_sep|>": State.CONTENT}},
    thinks_by_default=True,
    source="sglang function_call/gigachat35_detector.py, "
    "parser/reasoning_parser.py DeepSeekR1Detector",
)
