"""Gemma 4's channel of thoughts and its calls; FunctionGemma's calls, which have other marks around strings."""

from ..format import Format, Keep, State

GEMMA4 = Format(
    "gemma4",
    {
        # The channel's name stands behind the marker; with it the prompt may have ended.
        State.START: {"<|channel>": State.OPENED},
        State.OPENED: {"thought\n": State.REASONING},
        State.REASONING: {"<channel|>": State.START},
        State.CONTENT: {"<|tool_call>": State.SECTION},
        # Some checkpoints leave "call" out.
        State.SECTION: {"call:": State.NAME, ":": State.NAME, "<tool_call|>": State.BACK},
        State.NAME: {"{": Keep(State.ARGUMENTS), "<tool_call|>": State.BACK},
        State.ARGUMENTS: {"<tool_call|>": State.BACK, "<|tool_call>": State.SECTION},
    },
    quotes=('<|"|>',),
    source="vllm examples/tool_chat_template_gemma4.jinja, 0.31 parser/gemma4.py; "
    "sglang function_call/gemma4_detector.py",
)

FUNCTIONGEMMA = Format(
    "functiongemma",
    {
        State.CONTENT: {"<start_function_call>": State.SECTION},
        State.SECTION: {"call:": State.NAME, "<end_function_call>": State.BACK},
        State.NAME: {"{": Keep(State.ARGUMENTS), "<end_function_call>": State.BACK},
        State.ARGUMENTS: {"<end_function_call>": State.BACK, "<start_function_call>": State.SECTION},
    },
    quotes=("<escape>",),
    source="google/functiongemma-270m-it chat template; vllm 0.31 tool_parsers/functiongemma_tool_parser.py",
)
