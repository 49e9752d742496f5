"""GLM 4.5 to 4.7, and models that write calls in the same way.

Ling 3, Spark 2.5 and 3, HyperCLOVA X SEED Think, IQuest's and Poolside's.
"""

from ..format import Format, Jump, Spelling, State
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
    aliases=("glm47", "glm4", "glm", "spark25", "spark3", "hyperclovax_seed_think"),
    strip="",
    breaks_before_calls=1,
    source="zai-org/GLM-4.5 and GLM-4.7 chat templates; vllm 0.31 parser/glm47_moe.py, "
    "sglang function_call/glm4_moe_detector.py, function_call/spark25_detector.py; after vllm 0.33 "
    "tool_parsers/spark3_tool_parser.py, tool_parsers/hyperclovax_seed_think_tool_parser.py",
    # Version 4.7 writes no line breaks.
    spelling=Spelling(
        "<tool_call>{name}\n{arguments}</tool_call>",
        between="\n",
        parameters={State.VALUE: "<arg_key>{key}</arg_key>\n<arg_value>{value}</arg_value>\n"},
    ),
)

# After a call it goes on with the answer, also if it had not ended its thought.
_ANSWER = {"</tool_call>": State.START}

LING3 = variant(
    GLM45,
    "ling3",
    states={
        State.CONTENT: {"<|role_end|>": State.CONTENT},
        State.NAME: _ANSWER,
        State.PARAMETERS: _ANSWER,
    },
    hints=("<|role_end|>",),
    source="vllm 0.31 parser/ling3.py; sglang 0.5.23 function_call/ling3_detector.py",
)

POOLSIDE_V1 = variant(
    GLM45,
    "poolside_v1",
    aliases=("laguna",),
    hints=("unescaped XML-like object", "All available function signatures are listed below"),
    undeclared_type="json",
    source="vllm 0.31 tool_parsers/poolside_v1_tool_parser.py, "
    "reasoning/poolside_v1_reasoning_parser.py; sglang function_call/poolside_v1_detector.py",
)

IQUEST_Q1 = variant(
    GLM45,
    "iquest_q1",
    markers={"tool_call>": "iquest_tool_call>"},
    thinks_by_default=True,
    thinking_flags={"thinking": True, "enable_thinking": True},
    source="sglang function_call/iquest_q1_detector.py, "
    "parser/reasoning_parser.py IQuestQ1ReasoningDetector",
)

IQUEST_CODER_V2 = variant(
    IQUEST_Q1,
    "iquest_coder_v2",
    markers={"iquest_tool_call>": "iquestcoder_tool_call>"},
    undeclared_type="json",
    source="after vllm 0.33 tool_parsers/iquest_coder_v2_tool_parser.py, "
    "reasoning/iquest_coder_v2_reasoning_parser.py",
)
