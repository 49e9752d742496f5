"""InternLM 2's tool calls, and Intern-S1's, which also reasons."""

from ..format import Format, State

INTERNLM = Format(
    "internlm",
    {
        State.START: {"<think>": State.REASONING},
        State.REASONING: {"</think>": State.START},
        State.CONTENT: {"<|action_start|>": State.SECTION},
        # `<|interpreter|>` stands in its place in front of code, which is no call.
        State.SECTION: {"<|plugin|>": State.JSON_CALLS},
        State.JSON_CALLS: {"<|action_end|>": State.BACK},
    },
    aliases=("interns1",),
    source="internlm/internlm2_5-7b-chat and internlm/Intern-S1 chat templates; "
    "vllm 0.31 tool_parsers/internlm2_tool_parser.py; sglang function_call/internlm_detector.py",
)
