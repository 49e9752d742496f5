"""Hermes 2 Pro's tool calls, which Qwen 2.5 and 3 and many others have taken over."""

from ..format import Format, Jump, State

HERMES = Format(
    "hermes",
    {
        State.CONTENT: {"<tool_call>": State.JSON_CALLS},
        State.JSON_CALLS: {"</tool_call>": Jump.RETURN},
    },
    aliases=("granite4", "qwen25", "qwen"),
    source="NousResearch/Hermes-3-Llama-3.1-8B tokenizer_config.json; vllm 0.31 tool_parsers/hermes_tool_parser.py",
)
