"""InternLM 2's tool calls, and Intern-S1, which also reasons."""

from ..format import Format, Jump, Spelling, State
from .fragments import think

INTERNLM = Format(
    "internlm",
    {
        **think(),
        State.CONTENT: {"<|action_start|>": State.TOOL_SECTION, "<|action_end|>": State.CONTENT},
        # Code for the interpreter is not a call, so it is shown.
        State.TOOL_SECTION: {"<|plugin|>": State.JSON_CALLS, "<|interpreter|>": State.CONTENT},
        State.JSON_CALLS: {"<|action_end|>": Jump.RETURN},
    },
    aliases=("interns1",),
    source="vllm examples/tool_chat_template_internlm2_tool.jinja, "
    "0.31 tool_parsers/internlm2_tool_parser.py; sglang function_call/internlm_detector.py",
    spelling=Spelling(
        '<|action_start|><|plugin|>\n{"name": "{name}", "parameters": {arguments}}<|action_end|>'
    ),
)
