"""MiniMax M2: `<invoke name="f"><parameter name="p">value</parameter></invoke>`.

MiniMax M3 writes its parameters as nested elements instead.
"""

from ..format import Format, Jump, Spelling, State
from .fragments import invocation, invoke, spell_invocations, think

# The models sometimes write other quotes around a name, or none.
QUOTES = ('"', "'", "")
_END = "</minimax:tool_call>"

MINIMAX_M2 = Format(
    "minimax_m2",
    {
        **think(extra_end=True),
        State.CONTENT: {"<minimax:tool_call>": State.TOOL_SECTION, **invoke(quotes=QUOTES)},
        State.TOOL_SECTION: {**invoke(quotes=QUOTES), _END: Jump.RETURN},
        **invocation(quotes=QUOTES, then={_END: Jump.RETURN}),
    },
    aliases=("minimax-m2",),
    strip="",
    breaks_before_calls=1,
    source="MiniMaxAI/MiniMax-M2 chat template; vllm 0.31 parser/minimax_m2.py; "
    "sglang function_call/minimax_m2.py",
    spelling=spell_invocations("<minimax:tool_call>\n", _END),
)

MINIMAX_M2_APPEND_THINK = Format(
    "minimax_m2_append_think",
    # Reasoning stays in the content, after the start marker that the prompt contains.
    {State.REASONING: {}},
    aliases=("minimax-append-think", "minimax_append_think"),
    prefix="<think>",
    source="vllm 0.31 reasoning/minimax_m2_reasoning_parser.py; "
    "sglang parser/reasoning_parser.py MiniMaxAppendThinkDetector",
)

_PREFIX = "]<]minimax[>["

MINIMAX_M3 = Format(
    "minimax_m3",
    {
        **think("<mm:think>", "</mm:think>", extra_end=True),
        State.CONTENT: {f"{_PREFIX}<tool_call>": State.TOOL_SECTION},
        State.TOOL_SECTION: {
            f'{_PREFIX}<invoke name="': State.NAME,
            f"{_PREFIX}</tool_call>": Jump.RETURN,
        },
        State.NAME: {'">': State.ELEMENTS},
        State.ELEMENTS: {
            f"{_PREFIX}</invoke>": State.TOOL_SECTION,
            f"{_PREFIX}</tool_call>": Jump.RETURN,
        },
    },
    aliases=("minimax-m3", "minimax_m3_nom", "minimax-m3-nom"),
    tag_prefix=_PREFIX,
    source="vllm 0.31 tool_parsers/minimax_m3_tool_parser.py, "
    "reasoning/minimax_m3_reasoning_parser.py; sglang parser/reasoning_parser.py",
    spelling=Spelling(
        f'{_PREFIX}<invoke name="{{name}}">{{arguments}}{_PREFIX}</invoke>\n',
        around=(f"{_PREFIX}<tool_call>\n", f"{_PREFIX}</tool_call>"),
        parameters={State.ELEMENTS: f"{_PREFIX}<{{key}}>{{value}}{_PREFIX}</{{key}}>"},
    ),
)
