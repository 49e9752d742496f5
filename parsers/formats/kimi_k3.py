"""Kimi K3: channels, calls and arguments are elements.

Each one stands between `<|open|>...<|sep|>` and `<|close|>...<|sep|>`.
"""

import re

from ..format import Format, Jump, ReuseSuffix, Spelling, State, Target

# An end's header begins with the last character of its marker.
_ELEMENTS: dict[str, Target] = {"<|open|>": State.HEADER, "<|close|>": ReuseSuffix(State.HEADER)}
# The states of text by their elements' names.
_TEXTS = {"think": State.REASONING, "response": State.CONTENT}
_VALUE_ENDS = dict.fromkeys(
    ("<|close|>argument<|sep|>", "<|close|> argument <|sep|>"), State.PARAMETERS
)

KIMI_K3 = Format(
    "kimi_k3",
    {
        # One of the two markers around the name of an element is swapped with another one.
        State.START: {
            **_ELEMENTS,
            **{f"{name}<|open|>": state for name, state in _TEXTS.items()},
            "<|sep|>": State.START,
        },
        State.CONTENT: _ELEMENTS,
        State.REASONING: _ELEMENTS,
        State.HEADER: {
            "<|sep|>": Jump.BY_HEADER,
            **_ELEMENTS,
            **{f"{name}<|close|>": state for name, state in _TEXTS.items()},
        },
        # Only the end of the argument ends it; other elements inside are text.
        State.STRING: _VALUE_ENDS,
        State.JSON: _VALUE_ENDS,
        State.ARGUMENTS: {"<|close|>": State.IGNORED},
        State.IGNORED: {"<|sep|>": State.PARAMETERS, **_ELEMENTS},
        State.PARAMETERS: {**_ELEMENTS, "<|sep|>": State.PARAMETERS},
    },
    headers=(
        # Text after a channel's name is its message; the marker between them is missing.
        (re.compile(r"\Athink(?:\s*+(?P<text>.+))?\Z", re.DOTALL), State.REASONING),
        (re.compile(r"\Aresponse(?:\s*+(?P<text>.+))?\Z", re.DOTALL), State.CONTENT),
        (re.compile(r"\A(?:>\s*(?:think|response|message)\Z|message\b)"), State.START),
        (re.compile(r'\Acall\b.*\btool="(?P<name>[^"]+)"'), State.PARAMETERS),
        (re.compile(r'\Aargument\b.*\bkey="(?P<key>[^"]*)"\s+type="(?!string")'), State.JSON),
        (re.compile(r'\Aargument\b.*\bkey="(?P<key>[^"]*)"'), State.STRING),
        # All arguments at once.
        (re.compile(r"\Ajson\b"), State.ARGUMENTS),
        (re.compile(r"\A>\s*argument\Z"), State.PARAMETERS),
        # The channel of calls, their ends, and unknown elements.
        (re.compile(r"\A(?!argument\b|\Z)"), Jump.RETURN),
    ),
    header=re.compile(
        r'>?\s*+(?:[\w\-]++(?:\s++(?:\w++(?:=(?:"[^"]*+(?:"|\Z)|[^\s"<>]++)?+)?+)?+)*+)?+'
    ),
    aliases=("kimi-k3",),
    strip="",
    source="Kimi K3's XTML (vllm 0.31 tool_parsers/kimi_k3_tool_parser.py, "
    "reasoning/kimi_k3_reasoning_parser.py; "
    "sglang function_call/kimik3_format.py, kimik3_detector.py)",
    thought=("<|open|>think<|sep|>", "<|close|>", "think<|sep|>", "<|open|>response<|sep|>"),
    spelling=Spelling(
        '<|open|>call tool="{name}" index="{index}"<|sep|>{arguments}<|close|>call<|sep|>',
        around=("<|open|>tools<|sep|>", "<|close|>tools<|sep|>"),
        after_text="<|open|>response<|sep|><|close|>response<|sep|>",
        parameters={
            state: f'<|open|>argument key="{{key}}" type="{type_}"<|sep|>'
            "{value}<|close|>argument<|sep|>"
            for state, type_ in ((State.STRING, "string"), (State.JSON, "{type}"))
        },
    ),
)
