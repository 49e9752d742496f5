"""MiniMax M2: `<invoke name="f"><parameter name="p">value</parameter></invoke>`; the same in MiniMax M3's elements."""

from collections.abc import Mapping

from ..format import Format, Jump, State, Target

# The name's quotes are sometimes others, or missing.
INVOKE: Mapping[str, Target] = {
    '<invoke name="': State.NAME,
    "<invoke name='": State.NAME,
    "<invoke name=": State.NAME,
}


def invocations(end: str) -> dict[State, Mapping[str, Target]]:
    """Return the states inside an invocation. end: the marker of the block around it."""
    return {
        State.NAME: {'">': State.PARAMETERS, "'>": State.PARAMETERS, ">": State.PARAMETERS},
        State.PARAMETERS: {
            '<parameter name="': State.KEY,
            "<parameter name='": State.KEY,
            "<parameter name=": State.KEY,
            "</invoke>": State.TOOL_SECTION,
            end: Jump.RETURN,
        },
        State.KEY: {'">': State.VALUE, "'>": State.VALUE, ">": State.VALUE},
        State.VALUE: {"</parameter>": State.PARAMETERS},
    }


MINIMAX_M2 = Format(
    "minimax_m2",
    {
        State.START: {"<think>": State.REASONING, "</think>": State.START},
        State.REASONING: {"</think>": State.START},
        State.CONTENT: {"<minimax:tool_call>": State.TOOL_SECTION, **INVOKE},
        State.TOOL_SECTION: {**INVOKE, "</minimax:tool_call>": Jump.RETURN},
        **invocations("</minimax:tool_call>"),
    },
    aliases=("minimax-m2",),
    strip="",
    source="MiniMaxAI/MiniMax-M2 chat template; vllm 0.31 parser/minimax_m2.py; sglang function_call/minimax_m2.py",
)

_M3 = "]<]minimax[>["

MINIMAX_M3 = Format(
    "minimax_m3",
    {
        State.START: {"<mm:think>": State.REASONING, "</mm:think>": State.START},
        State.REASONING: {"</mm:think>": State.START},
        State.CONTENT: {f"{_M3}<tool_call>": State.TOOL_SECTION},
        State.TOOL_SECTION: {
            f'{_M3}<invoke name="': State.NAME,
            f"{_M3}</tool_call>": Jump.RETURN,
        },
        State.NAME: {'">': State.ELEMENTS},
        State.ELEMENTS: {f"{_M3}</invoke>": State.TOOL_SECTION, f"{_M3}</tool_call>": Jump.RETURN},
    },
    aliases=("minimax-m3",),
    tag_prefix=_M3,
    source="vllm 0.31 tool_parsers/minimax_m3_tool_parser.py, reasoning/minimax_m3_reasoning_parser.py; "
    "sglang parser/reasoning_parser.py",
)
