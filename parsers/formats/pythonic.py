"""Calls as Python writes them: Llama 3.2 and 4, ToolACE, Olmo 3 and LFM 2."""

from ..format import COMPLETE, Format, Jump, Literals, ReuseSuffix, Spelling, State
from .fragments import think


def calls(begin: str, end: str, between: str = ", ", after_text: str = "") -> Spelling:
    """Return the spelling of calls with keyword arguments."""
    return Spelling(
        "{name}({arguments})",
        around=(begin, end),
        between=between,
        after_text=after_text,
        parameters={State.VALUE: "{key}={value}"},
        literals=Literals(", "),
    )


PYTHONIC = Format(
    "pythonic",
    {
        # An answer is a list of calls or text; Llama 4 sometimes puts tokens around the list.
        State.START: {"[": ReuseSuffix(State.PYTHON_CALLS)},
        State.CONTENT: {"<|python_start|>": State.PYTHON_CALLS, "<|python_end|>": State.CONTENT},
        State.PYTHON_CALLS: {COMPLETE: Jump.RETURN},
    },
    aliases=("llama4_pythonic",),
    declared_only=True,
    source="vllm examples/tool_chat_template_llama4_pythonic.jinja; "
    "vllm 0.31 tool_parsers/pythonic_tool_parser.py, "
    "tool_parsers/llama4_pythonic_tool_parser.py; sglang function_call/pythonic_detector.py",
    spelling=calls("[", "]", after_text="<|python_start|>"),
)

OLMO3 = Format(
    "olmo3",
    {
        **think(),
        State.CONTENT: {"<function_calls>": State.PYTHON_LINES},
        State.PYTHON_LINES: {"</function_calls>": Jump.RETURN},
    },
    breaks_before_calls=1,
    source="vllm examples/tool_chat_template_olmo3.jinja; "
    "vllm 0.31 tool_parsers/olmo3_tool_parser.py, reasoning/olmo3_reasoning_parser.py",
    spelling=calls("<function_calls>\n", "\n</function_calls>", between="\n"),
)

LFM2 = Format(
    "lfm2",
    {
        # The model sometimes repeats the end marker after its calls; it is not shown.
        State.CONTENT: {
            "<|tool_call_start|>": State.TOOL_SECTION,
            "<|tool_call_end|>": State.CONTENT,
        },
        # The model writes JSON if the system prompt asks for it.
        State.TOOL_SECTION: {
            "[": ReuseSuffix(State.CALL_LIST),
            "{": ReuseSuffix(State.CALL_LIST),
            "<|tool_call_end|>": Jump.RETURN,
        },
        State.CALL_LIST: {"<|tool_call_end|>": Jump.RETURN},
    },
    source="LiquidAI/LFM2-1.2B chat template and model card; "
    "vllm 0.31 tool_parsers/lfm2_tool_parser.py; sglang function_call/lfm2_detector.py",
    spelling=calls("<|tool_call_start|>[", "]<|tool_call_end|>"),
)
