"""DeepSeek V3.2 to V4.1: calls in DSML, whose parameters say themselves whether they are strings."""

import re
from collections.abc import Mapping

from ..format import Format, Jump, ReuseSuffix, State, Target

_HEADERS = (
    (re.compile(r'\bname="(?P<key>[^"]*)"\s+string="true"'), State.STRING),
    # Also without the attribute, which the models leave out at times.
    (re.compile(r'\bname="(?P<key>[^"]*)"'), State.JSON),
)


def _calls(blocks: tuple[str, ...], space: str = "") -> dict[State, Mapping[str, Target]]:
    """Return the states of DSML. blocks: names of the outer tag, the usual one first. space: behind the sigil."""
    tag = f"｜DSML｜{space}"
    invoke = f'<{tag}invoke name="'
    end = f"</{tag}{blocks[0]}>"
    initial_state: Mapping[str, Target] = {
        f"<{tag}{block}>": State.TOOL_SECTION for block in blocks
    }
    return {
        State.CONTENT: {**initial_state, invoke: State.NAME},
        State.TOOL_SECTION: {**initial_state, invoke: State.NAME, end: Jump.RETURN},
        # Some write all parameters as one JSON object.
        State.NAME: {
            '">': State.PARAMETERS,
            '">{': ReuseSuffix(State.ARGUMENTS),
            '">\n{': ReuseSuffix(State.ARGUMENTS),
        },
        State.ARGUMENTS: {f"</{tag}invoke>": State.TOOL_SECTION, end: Jump.RETURN},
        State.PARAMETERS: {
            f"<{tag}parameter": State.HEADER,
            f"</{tag}invoke>": State.TOOL_SECTION,
            end: Jump.RETURN,
        },
        State.HEADER: {">": Jump.BY_HEADER},
        State.STRING: {f"</{tag}parameter>": State.PARAMETERS},
        State.JSON: {f"</{tag}parameter>": State.PARAMETERS},
    }


_REASONING: Mapping[State, Mapping[str, Target]] = {
    State.START: {"<think>": State.REASONING, "</think>": State.START},
    State.REASONING: {"</think>": State.START},
}

DEEPSEEK_V32 = Format(
    "deepseek_v32",
    _calls(("function_calls",)),
    aliases=("deepseekv32",),
    headers=_HEADERS,
    strip="",
    source="deepseek-ai/DeepSeek-V3.2 encoding/encoding_dsv32.py; vllm 0.31 parser/deepseek_v32.py",
)

DEEPSEEK_V4 = Format(
    "deepseek_v4",
    # The other two are misspellings that the model was seen to make.
    {**_REASONING, **_calls(("tool_calls", "toolcalls", "tool"))},
    aliases=("deepseekv4", "deepseek-v4"),
    headers=_HEADERS,
    strip="",
    source="DeepSeek V4 encoding (vllm 0.31 tokenizers/deepseek_v4_encoding.py); vllm 0.31 parser/deepseek_v4.py",
)

DEEPSEEK_V41 = Format(
    "deepseek_v41",
    {**_REASONING, **_calls(("calls",), " ")},
    aliases=("deepseekv41",),
    headers=_HEADERS,
    strip="",
    source="DeepSeek V4.1 encoding (vllm 0.31 tokenizers/deepseek_v41_encoding.py); vllm 0.31 parser/deepseek_v41.py",
)
