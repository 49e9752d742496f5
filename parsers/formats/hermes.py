"""Hermes 2 Pro: tool calls as JSON, which Qwen 2.5 and 3 and many others have adopted."""

from ..format import Format
from .fragments import json_calls

HERMES = Format(
    "hermes",
    json_calls("<tool_call>", "</tool_call>"),
    aliases=("granite4", "qwen25", "qwen"),
    source="NousResearch/Hermes-3-Llama-3.1-8B tokenizer_config.json; "
    "vllm 0.31 tool_parsers/hermes_tool_parser.py",
)
