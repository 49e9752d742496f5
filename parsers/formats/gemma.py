"""Gemma 4's channel of thoughts and its calls; FunctionGemma's calls, which have other marks around strings."""

from ..format import Format, Jump, ReuseSuffix, State

GEMMA4 = Format(
    "gemma4",
    {
        # The channel's name stands behind the marker; with it the prompt may have ended.
        State.START: {"<|channel>": State.REASONING_OPENED},
        State.REASONING_OPENED: {"thought\n": State.REASONING},
        State.REASONING: {"<channel|>": State.START},
        State.CONTENT: {"<|tool_call>": State.TOOL_SECTION},
        # Some checkpoints leave "call" out.
        State.TOOL_SECTION: {"call:": State.NAME, ":": State.NAME, "<tool_call|>": Jump.RETURN},
        State.NAME: {"{": ReuseSuffix(State.ARGUMENTS), "<tool_call|>": Jump.RETURN},
        State.ARGUMENTS: {"<tool_call|>": Jump.RETURN, "<|tool_call>": State.TOOL_SECTION},
    },
    quotes=('<|"|>',),
    source="vllm examples/tool_chat_template_gemma4.jinja, 0.31 parser/gemma4.py; "
    "sglang function_call/gemma4_detector.py",
)

FUNCTIONGEMMA = Format(
    "functiongemma",
    {
        State.CONTENT: {"<start_function_call>": State.TOOL_SECTION},
        State.TOOL_SECTION: {"call:": State.NAME, "<end_function_call>": Jump.RETURN},
        State.NAME: {"{": ReuseSuffix(State.ARGUMENTS), "<end_function_call>": Jump.RETURN},
        State.ARGUMENTS: {
            "<end_function_call>": Jump.RETURN,
            "<start_function_call>": State.TOOL_SECTION,
        },
    },
    quotes=("<escape>",),
    source="google/functiongemma-270m-it chat template; vllm 0.31 tool_parsers/functiongemma_tool_parser.py",
)
