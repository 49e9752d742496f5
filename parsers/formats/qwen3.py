"""Qwen 3's reasoning; Qwen 3 Coder's tool calls, adopted by Step 3.5 and Nemotron 3; MiMo's."""

from dataclasses import replace

from ..format import Format, Jump, Spelling, State
from .fragments import keyed_values, think

QWEN3 = Format(
    "qwen3",
    think(extra_end=True),
    aliases=(
        "qwen3-thinking",
        "berrylm",
        "dots",
        "granite_thinking_parser",
        "kolibri1",
        "mimo",
        "minimax",
        "nanbeige",
        "nano-v3",
        "nemotron-v3",
        "nemotron3",
        "nemotron_3",
        "nemotron_nano",
        "nemotron_v3",
        "qwen3_5",
        "step3p5",
        "telechat4",
    ),
    thinks_by_default=True,
    thinking_flags={"enable_thinking": True},
    source="Qwen/Qwen3-8B chat template; vllm 0.31 parser/qwen3.py; "
    "sglang parser/reasoning_parser.py; after vllm 0.33 parser/kolibri1.py, parser/berrylm.py",
)

_PARAMETERS = keyed_values(
    "<parameter=",
    ">",
    "</parameter>",
    then={
        "</function>": State.TOOL_SECTION,
        "</tool_call>": Jump.RETURN,
    },
)

QWEN3_CODER = Format(
    "qwen3_coder",
    {
        # Qwen 3 Coder sometimes forgets <tool_call>.
        State.CONTENT: {"<tool_call>": State.TOOL_SECTION, "<function=": State.NAME},
        State.TOOL_SECTION: {
            "<function=": State.NAME,
            "<tool_call>": State.TOOL_SECTION,
            "</tool_call>": Jump.RETURN,
        },
        State.NAME: {">": State.PARAMETERS, "</function>": State.TOOL_SECTION},
        **_PARAMETERS,
        # A parameter without its end marker ends at a line that begins another.
        State.VALUE: {**_PARAMETERS[State.VALUE], "\n<parameter=": State.KEY},
    },
    aliases=(
        "qwen3_xml",
        "nanbeige",
        "step3p5",
        "step5",
        "nemotron_nano",
        "nemotron_v3",
        "minicpmv",
        "berrylm",
    ),
    breaks_before_calls=2,
    source="Qwen/Qwen3-Coder-30B-A3B-Instruct chat template; vllm 0.31 parser/qwen3.py; "
    "0.33 tool_parsers/step5_tool_parser.py; sglang function_call/qwen3_coder_detector.py",
    spelling=Spelling(
        "<tool_call>\n<function={name}>\n{arguments}</function>\n</tool_call>",
        between="\n",
        parameters={State.VALUE: "<parameter={key}>\n{value}\n</parameter>\n"},
    ),
)

MIMO = replace(
    QWEN3_CODER,
    name="mimo",
    # No line break belongs to a tag, so none shows that a parameter's end is missing.
    states={**QWEN3_CODER.states, State.VALUE: _PARAMETERS[State.VALUE]},
    aliases=(),
    strip="",
    # Its template writes the probe of `detection` on the line of its markers.
    hints=(">Paris</parameter>",),
    breaks_before_calls=0,
    source="MiMo V2.6 Flash's generations (vllm tests/v1/structured_output); "
    "sglang function_call/mimo_detector.py",
    spelling=Spelling(
        "<tool_call><function={name}>{arguments}</function></tool_call>",
        parameters={State.VALUE: "<parameter={key}>{value}</parameter>"},
    ),
)
