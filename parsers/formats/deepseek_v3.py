"""DeepSeek V3, R1 and V3.1: tool calls, and the reasoning of V3.1."""

from ..format import Format, Jump, ReuseSuffix, Spelling, State
from .fragments import think

CALLS_BEGIN, CALLS_END = "<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>"
CALL_BEGIN, CALL_END = "<｜tool▁call▁begin｜>", "<｜tool▁call▁end｜>"
SEPARATOR = "<｜tool▁sep｜>"

DEEPSEEK_V3 = Format(
    "deepseek_v3",
    {
        **think(),
        State.CONTENT: {CALLS_BEGIN: State.TOOL_SECTION},
        State.TOOL_SECTION: {CALL_BEGIN: State.IGNORED, CALLS_END: Jump.RETURN},
        State.IGNORED: {SEPARATOR: State.NAME},  # the call's type, always "function"
        State.NAME: {
            "```json": State.ARGUMENTS,
            "```": State.ARGUMENTS,
            "{": ReuseSuffix(State.ARGUMENTS),
        },
        State.ARGUMENTS: {
            "```": State.PARAMETERS,
            CALL_END: State.TOOL_SECTION,
            CALLS_END: Jump.RETURN,
            CALL_BEGIN: State.IGNORED,
        },
        # After the code block with the arguments.
        State.PARAMETERS: {
            CALL_END: State.TOOL_SECTION,
            CALLS_END: Jump.RETURN,
            CALL_BEGIN: State.IGNORED,
        },
    },
    aliases=("deepseekv3", "deepseek-v3"),
    thinking_flags={"thinking": False},
    source="vllm examples/tool_chat_template_deepseekv3.jinja, "
    "0.31 tool_parsers/deepseekv3_tool_parser.py, reasoning/deepseek_v3_reasoning_parser.py",
    spelling=Spelling(
        f"{CALL_BEGIN}function{SEPARATOR}{{name}}\n```json\n{{arguments}}\n```{CALL_END}",
        around=(CALLS_BEGIN, CALLS_END),
        between="\n",
    ),
)

DEEPSEEK_V31 = Format(
    "deepseek_v31",
    {
        State.CONTENT: {CALLS_BEGIN: State.TOOL_SECTION},
        State.TOOL_SECTION: {CALL_BEGIN: State.NAME, CALLS_END: Jump.RETURN},
        State.NAME: {SEPARATOR: State.ARGUMENTS},
        State.ARGUMENTS: {
            CALL_END: State.TOOL_SECTION,
            CALLS_END: Jump.RETURN,
            CALL_BEGIN: State.NAME,
        },
    },
    aliases=("deepseekv31", "deepseek_v3_1"),
    source="vllm examples/tool_chat_template_deepseekv31.jinja, "
    "0.31 tool_parsers/deepseekv31_tool_parser.py",
    spelling=Spelling(
        f"{CALL_BEGIN}{{name}}{SEPARATOR}{{arguments}}{CALL_END}",
        around=(CALLS_BEGIN, CALLS_END),
    ),
)
