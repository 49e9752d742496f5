"""Step-Audio 2: a call's kind, its function and a JSON object, on lines between tags."""

from ..format import Format, Jump, ReuseSuffix, Spelling, State

STEP_AUDIO_2 = Format(
    "step_audio_2",
    {
        State.CONTENT: {"<tool_call>": State.TOOL_SECTION},
        State.TOOL_SECTION: {"function": State.NAME, "</tool_call>": Jump.RETURN},
        State.NAME: {"{": ReuseSuffix(State.ARGUMENTS), "</tool_call>": Jump.RETURN},
        State.ARGUMENTS: {"</tool_call>": Jump.RETURN},
    },
    source="after vllm 0.33 tool_parsers/step_audio_2_tool_parser.py",
    spelling=Spelling("<tool_call>function\n{name}\n{arguments}</tool_call>"),
)
