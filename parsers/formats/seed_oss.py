"""Seed-OSS: Qwen 3 Coder's calls between tokens of its own."""

from ..format import Format, Jump, State

SEED_OSS = Format(
    "seed_oss",
    {
        State.START: {"<seed:think>": State.REASONING, "</seed:think>": State.START},
        State.REASONING: {"</seed:think>": State.START},
        State.CONTENT: {"<seed:tool_call>": State.TOOL_SECTION, "<function=": State.NAME},
        State.TOOL_SECTION: {
            "<function=": State.NAME,
            "<seed:tool_call>": State.TOOL_SECTION,
            "</seed:tool_call>": Jump.RETURN,
        },
        State.NAME: {">": State.PARAMETERS, "</function>": State.TOOL_SECTION},
        State.PARAMETERS: {
            "<parameter=": State.KEY,
            "</function>": State.TOOL_SECTION,
            "</seed:tool_call>": Jump.RETURN,
        },
        State.KEY: {">": State.VALUE},
        State.VALUE: {"</parameter>": State.PARAMETERS, "\n<parameter=": State.KEY},
    },
    source="ByteDance-Seed/Seed-OSS-36B-Instruct chat template; vllm 0.31 parser/seed_oss.py",
)
