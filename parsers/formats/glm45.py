"""GLM 4.5 to 4.7, and the models that write calls in the same way: Ling 3 and Poolside's."""

from ..format import Format, Jump, State
from .fragments import keyed_values, think, variant

GLM45 = Format(
    "glm45",
    {
        **think(extra_end=True),
        State.CONTENT: {"<tool_call>": State.NAME},
        State.NAME: {"<arg_key>": State.KEY, "</tool_call>": Jump.RETURN},
        **keyed_values(
            "<arg_key>",
            "<arg_value>",
            "</arg_value>",
            key_end="</arg_key>",
            then={"</tool_call>": Jump.RETURN},
        ),
    },
    aliases=("glm47", "glm", "ling3"),
    strip="",
    source="zai-org/GLM-4.5 and GLM-4.7 chat templates; vllm 0.31 parser/glm47_moe.py, "
    "parser/ling3.py; sglang function_call/glm4_moe_detector.py",
)

POOLSIDE_V1 = variant(
    GLM45,
    "poolside_v1",
    undeclared_type="json",
    source="vllm 0.31 tool_parsers/poolside_v1_tool_parser.py, "
    "reasoning/poolside_v1_reasoning_parser.py; sglang function_call/poolside_v1_detector.py",
)
