"""GLM 4.5 to 4.7, and Ling 3 and Poolside's models, which write calls as it does."""

from dataclasses import replace

from ..format import Format, Jump, State

GLM45 = Format(
    "glm45",
    {
        State.START: {"<think>": State.REASONING, "</think>": State.START},
        State.REASONING: {"</think>": State.START},
        State.CONTENT: {"<tool_call>": State.NAME},
        State.NAME: {"<arg_key>": State.KEY, "</tool_call>": Jump.RETURN},
        State.KEY: {"</arg_key>": State.PARAMETERS},
        State.PARAMETERS: {
            "<arg_value>": State.VALUE,
            "<arg_key>": State.KEY,
            "</tool_call>": Jump.RETURN,
        },
        State.VALUE: {"</arg_value>": State.PARAMETERS},
    },
    aliases=("glm47", "glm", "ling3"),
    strip="",
    source="zai-org/GLM-4.5 and GLM-4.7 chat templates; vllm 0.31 parser/glm47_moe.py, "
    "parser/ling3.py; sglang function_call/glm4_moe_detector.py",
)

POOLSIDE_V1 = replace(
    GLM45,
    name="poolside_v1",
    aliases=(),
    undeclared_type="json",
    source="vllm 0.31 tool_parsers/poolside_v1_tool_parser.py, reasoning/poolside_v1_reasoning_parser.py; "
    "sglang function_call/poolside_v1_detector.py",
)
