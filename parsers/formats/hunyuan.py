"""Hunyuan 3 and 4: sections of calls with keys and values, and reasoning.

Version 3 writes a token between the name and the parameters. A checkpoint may add a suffix to the
names of all markers: `<tool_calls:opensource>`.
"""

import re

from ..format import Format, Jump, Spelling, State
from .fragments import keyed_values, think

HY_V3 = Format(
    "hy_v3",
    {
        **think(extra_end=True),
        State.CONTENT: {"<tool_calls>": State.TOOL_SECTION},
        State.TOOL_SECTION: {"<tool_call>": State.NAME, "</tool_calls>": Jump.RETURN},
        State.NAME: {
            "<tool_sep>": State.PARAMETERS,
            "<arg_key>": State.KEY,
            "</tool_call>": State.TOOL_SECTION,
        },
        **keyed_values(
            "<arg_key>",
            "<arg_value>",
            "</arg_value>",
            key_end="</arg_key>",
            then={
                "</tool_call>": State.TOOL_SECTION,
                "</tool_calls>": Jump.RETURN,
                "<tool_call>": State.NAME,
            },
        ),
    },
    aliases=("hy_v4", "hunyuan"),
    strip="",
    suffix=re.compile(r":[^\s>]+(?=>\Z)"),
    source="vllm 0.31 tool_parsers/hy_v3_tool_parser.py, tool_parsers/hy_v4_tool_parser.py, "
    "reasoning/hy_v4_reasoning_parser.py; sglang function_call/hunyuan_detector.py",
    spelling=Spelling(
        "<tool_call>{name}<tool_sep>\n{arguments}</tool_call>\n",
        around=("<tool_calls>\n", "</tool_calls>"),
        parameters={State.VALUE: "<arg_key>{key}</arg_key>\n<arg_value>{value}</arg_value>\n"},
    ),
)
