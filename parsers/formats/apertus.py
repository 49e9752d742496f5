"""Apertus: call objects whose key is the function's name, and reasoning."""

from ..arguments.json_calls import CallKeys
from ..format import Format, Spelling
from .fragments import json_calls, think

APERTUS = Format(
    "apertus",
    {
        **think("<|inner_prefix|>", "<|inner_suffix|>"),
        **json_calls("<|tools_prefix|>", "<|tools_suffix|>"),
    },
    aliases=("apertus2509",),
    keys=CallKeys(name_is_key=True),
    source="vllm examples/tool_chat_template_apertus.jinja, "
    "0.31 tool_parsers/apertus_tool_parser.py; sglang function_call/apertus2509_detector.py",
    spelling=Spelling(
        '{"{name}": {arguments}}',
        around=("<|tools_prefix|>[", "]<|tools_suffix|>"),
        between=", ",
    ),
)
