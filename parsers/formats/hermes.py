"""Hermes 2 Pro: tool calls as JSON, which Qwen 2.5 and 3, Nemotron and others have adopted."""

from dataclasses import replace

from ..arguments.json_calls import CallKeys
from ..format import Format, Spelling
from .fragments import JSON_CALL, call_array, json_calls, variant

_HERMES = Format(
    "hermes",
    json_calls("<tool_call>", "</tool_call>"),
    aliases=(
        "granite4",
        "qwen25",
        "qwen25_coder",
        "qwen",
        "qwen3",
        "qwen3_json",
        "trinity",
        "kolibri1",
    ),
    breaks_before_calls=1,
    source="NousResearch/Hermes-3-Llama-3.1-8B tokenizer_config.json; "
    "vllm 0.31 tool_parsers/hermes_tool_parser.py",
    spelling=Spelling(f"<tool_call>\n{JSON_CALL}\n</tool_call>", between="\n"),
)

# Qwen 2.5 Coder writes its calls between the tags around the prompt's list of functions, which is
# not one of calls.
_IN_TOOLS = replace(
    variant(
        _HERMES,
        "hermes",
        markers={"tool_call": "tools"},
        source="vllm-project/vllm#10952 and #32926, Qwen/Qwen2.5-Coder-32B-Instruct",
    ),
    declared_only=True,
    keys=CallKeys(arguments=("arguments",), inside=(), defines=("description", "parameters")),
)
HERMES = replace(_HERMES, forms=(_IN_TOOLS,))

NEMOTRON_DECI = variant(
    HERMES,
    "nemotron_deci",
    markers={"tool_call": "TOOLCALL"},
    source="nvidia/Llama-3_3-Nemotron-Super-49B-v1 chat template; "
    "Dynamo's tool-call parser of that name",
    spelling=call_array("<TOOLCALL>", "</TOOLCALL>"),
)
