"""Hermes 2 Pro: tool calls as JSON, which Qwen 2.5 and 3, Nemotron and others have adopted."""

from ..format import Format
from ..structural_tag import CallTags
from .fragments import json_calls, variant

HERMES = Format(
    "hermes",
    json_calls("<tool_call>", "</tool_call>"),
    aliases=("granite4", "qwen25", "qwen", "qwen3", "qwen3_json", "trinity"),
    source="NousResearch/Hermes-3-Llama-3.1-8B tokenizer_config.json; "
    "vllm 0.31 tool_parsers/hermes_tool_parser.py",
    call_tags=CallTags(
        "<tool_call>",
        ('<tool_call>\n{"name": "{name}", "arguments": ',),
        "}\n</tool_call>",
        separator="\n",
    ),
)

NEMOTRON_DECI = variant(
    HERMES,
    "nemotron_deci",
    markers={"tool_call": "TOOLCALL"},
    source="nvidia/Llama-3_3-Nemotron-Super-49B-v1 chat template; "
    "Dynamo's tool-call parser of that name",
)
