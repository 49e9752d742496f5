"""Solar Open 100B: a token for each kind of message. Solar Open 2: parameters between tokens."""

from ..format import Format, Spelling, State, Target
from .fragments import keyed_values, think

# Beside text; the prompt ends with the role of the answer's first message.
_FRAME = ("<|begin|>assistant", "<|content|>", "<|end|>", "<|calls|>")
_SECTION: dict[str, Target] = {
    "<|tool_calls|>": State.TOOL_SECTION,
    "<|tool_call:begin|>": State.IGNORED,
    "<|calls|>": State.START,
    "<|end|>": State.START,
}

SOLAR_OPEN = Format(
    "solar_open",
    {
        State.START: {"<|think|>": State.REASONING, **dict.fromkeys(_FRAME, State.START)},
        State.CONTENT: {
            "<|tool_calls|>": State.TOOL_SECTION,
            **dict.fromkeys(_FRAME, State.CONTENT),
        },
        State.REASONING: {"<|end|>": State.START},
        State.TOOL_SECTION: _SECTION,
        # The call's id, ten letters and digits that mean nothing.
        State.IGNORED: {"<|tool_call:name|>": State.NAME, **_SECTION},
        State.NAME: {"<|tool_call:args|>": State.ARGUMENTS, **_SECTION},
        State.ARGUMENTS: {"<|tool_call:end|>": State.TOOL_SECTION, **_SECTION},
    },
    source="upstage/Solar-Open-100B chat template",
    thought=("<|think|>", "<|end|>", "<|begin|>assistant", "<|content|>"),
    spelling=Spelling(
        "<|tool_call:begin|>call00000{index}<|tool_call:name|>{name}<|tool_call:args|>"
        "{arguments}<|tool_call:end|>",
        around=("<|tool_calls|>", "<|calls|>"),
    ),
)

# After a call it goes on with the answer, also if it had not ended its thought.
_CALL_END = {"<|tool_call:end|>": State.START}
_KEY, _VALUE = "<|tool_arg:start|>", "<|tool_arg:value|>"

SOLAR_OPEN2 = Format(
    "solar_open2",
    {
        **think("<|think:start|>", "<|think:end|>", extra_end=True),
        State.CONTENT: {"<|tool_call:start|>": State.NAME},
        State.NAME: {_KEY: State.KEY, **_CALL_END},
        **keyed_values(_KEY, _VALUE, "<|tool_arg:end|>", then=_CALL_END),
    },
    strip="",
    source="after vllm 0.33 tool_parsers/solar_open2_tool_parser.py, "
    "reasoning/solar_open2_reasoning_parser.py",
    spelling=Spelling(
        "<|tool_call:start|>{name}\n{arguments}<|tool_call:end|>",
        between="\n",
        parameters={State.VALUE: f"{_KEY}{{key}}{_VALUE}{{value}}<|tool_arg:end|>\n"},
    ),
)
