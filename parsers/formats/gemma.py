"""FunctionGemma's calls; Gemma 4's calls, which differ in their markers, and its reasoning."""

from ..format import Format, Jump, Literals, ReuseSuffix, Spelling, State
from .fragments import variant


def calls(begin: str, end: str, mark: str) -> Spelling:
    """Return the spelling of calls. mark: around strings."""
    return Spelling(
        f"{begin}call:{{name}}{{{{arguments}}}}{end}",
        parameters={State.VALUE: "{key}:{value}"},
        literals=Literals(",", mark),
    )


FUNCTIONGEMMA = Format(
    "functiongemma",
    {
        State.CONTENT: {"<start_function_call>": State.TOOL_SECTION},
        State.TOOL_SECTION: {"call:": State.NAME, "<end_function_call>": Jump.RETURN},
        State.NAME: {
            "{": ReuseSuffix(State.ARGUMENTS),
            # With many tools, the models write Python's keyword arguments (jundot/omlx#1886).
            "(": ReuseSuffix(State.ARGUMENTS),
            "<end_function_call>": Jump.RETURN,
        },
        State.ARGUMENTS: {"<end_function_call>": Jump.RETURN},
    },
    quotes=("<escape>",),
    # `call:google:mcp:f{}` where `f` is declared (jundot/omlx#1830).
    namespace=":",
    source="google/functiongemma-270m-it chat template; "
    "vllm 0.31 tool_parsers/functiongemma_tool_parser.py",
    spelling=calls("<start_function_call>", "<end_function_call>", "<escape>"),
)

GEMMA4 = variant(
    FUNCTIONGEMMA,
    "gemma4",
    markers={"<start_function_call>": "<|tool_call>", "<end_function_call>": "<tool_call|>"},
    states={
        # The channel's name follows the marker; the prompt may have ended with both.
        State.START: {"<|channel>": State.REASONING_OPENED},
        State.REASONING_OPENED: {"thought\n": State.REASONING, "thought<channel|>": State.START},
        State.REASONING: {"<channel|>": State.START},
        # Some checkpoints omit "call".
        State.TOOL_SECTION: {":": State.NAME},
    },
    aliases=("gemma-4",),
    quotes=('<|"|>',),
    source="vllm examples/tool_chat_template_gemma4.jinja, 0.31 parser/gemma4.py; "
    "sglang function_call/gemma4_detector.py",
    spelling=calls("<|tool_call>", "<tool_call|>", '<|"|>'),
)
