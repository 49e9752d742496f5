"""Mistral: tool calls as an array of objects or as names with arguments; Magistral's reasoning."""

import re

from ..format import COMPLETE, Format, Jump, ReuseSuffix, Spelling, State
from .fragments import think

TOOL_CALLS = "[TOOL_CALLS]"

MISTRAL = Format(
    "mistral",
    {
        # Tokens since version 13 of the tokenizer; the first Magistral wrote the tags as text.
        **think(("[THINK]", "<think>"), ("[/THINK]", "</think>")),
        State.CONTENT: {TOOL_CALLS: State.NAME},
        State.NAME: {
            "[ARGS]": State.ARGUMENTS,
            "{": ReuseSuffix(State.ARGUMENTS),
            "[": ReuseSuffix(State.JSON_CALLS),
            COMPLETE: Jump.RETURN,  # a name alone
        },
        State.ARGUMENTS: {COMPLETE: Jump.RETURN},
        # NVIDIA's parser has an end marker, which is missing from all of Mistral's tokenizers.
        State.JSON_CALLS: {"[/TOOL_CALLS]": Jump.RETURN},
        # Part of a name (see `function`); named here only because it may be a token.
        State.IGNORED: {"[CALL_ID]": State.IGNORED},
    },
    # Also matches the beginning of a name that continues with `[CALL_ID]`.
    function=re.compile(r"(?P<name>[^\s<>{}\[\]()\"'`]+)(?:\[[A-Z_]*\]?(?P<id>\w+)?)?"),
    source="mistral-common 1.13 tokenizers/instruct.py; vllm 0.31 parser/mistral.py; "
    "sglang function_call/mistral_detector.py",
    spelling=Spelling(f"{TOOL_CALLS}{{name}}[ARGS]{{arguments}}"),
)
