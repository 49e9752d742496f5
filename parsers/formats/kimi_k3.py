"""Kimi K3: channels, calls and arguments are elements.

Each one stands between `<|open|>...<|sep|>` and `<|close|>...<|sep|>`.
"""

import re

from ..format import Format, Jump, State

_ARGUMENT_END = "<|close|>argument<|sep|>"
_ELEMENTS = {"<|open|>": State.HEADER, "<|close|>": State.IGNORED}

KIMI_K3 = Format(
    "kimi_k3",
    {
        State.START: _ELEMENTS,
        State.CONTENT: _ELEMENTS,
        State.REASONING: _ELEMENTS,
        State.HEADER: {"<|sep|>": Jump.BY_HEADER},
        State.IGNORED: {"<|sep|>": State.START},
        # Only the end of an argument ends it; other elements in it are its text.
        State.STRING: {_ARGUMENT_END: State.PARAMETERS},
        State.JSON: {_ARGUMENT_END: State.PARAMETERS},
        State.ARGUMENTS: {"<|close|>": State.PARAMETERS},
        State.PARAMETERS: {**_ELEMENTS, "<|sep|>": State.PARAMETERS},
    },
    headers=(
        (re.compile(r"\Athink\Z"), State.REASONING),
        (re.compile(r"\Aresponse\Z"), State.CONTENT),
        (re.compile(r'\Acall\b.*\btool="(?P<name>[^"]+)"'), State.PARAMETERS),
        (re.compile(r'\Aargument\b.*\bkey="(?P<key>[^"]*)"\s+type="(?!string")'), State.JSON),
        (re.compile(r'\Aargument\b.*\bkey="(?P<key>[^"]*)"'), State.STRING),
        # All arguments at once.
        (re.compile(r"\Ajson\b"), State.ARGUMENTS),
        (re.compile(r""), State.START),
    ),
    strip="",
    source="Kimi K3's XTML (vllm 0.31 tool_parsers/kimi_k3_tool_parser.py, "
    "reasoning/kimi_k3_reasoning_parser.py; "
    "sglang function_call/kimik3_format.py, kimik3_detector.py)",
)
