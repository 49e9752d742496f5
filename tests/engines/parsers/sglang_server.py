"""Where SGLang's own server has reasoning begin, beside our adapter.

`python -m tests.engines.parsers.sglang_server` prints where they differ. It is a process of its own
because the server imports all of SGLang, which the tests of its parsers need not carry.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import filterfalse
from types import SimpleNamespace
from typing import Any

from backedge.base.server_names import find_own_name
from backedge.engines.sglang.parsers import HUNYUAN_EFFORT, ReasoningParserFactory
from sglang.srt.entrypoints.openai.serving_chat import OpenAIServingChat
from sglang.srt.parser.reasoning_parser import ReasoningParser
from sglang.srt.parser.template_detection import detect_reasoning_pattern

TEMPLATES = (
    None,
    "plain",
    "{% if not thinking is defined %}{% set thinking = false %}{% endif %}",
    "{%- set enable_thinking = enable_thinking | default(true) -%}",
    "{%- set enable_thinking = enable_thinking | default(false) -%}",
    "<|channel|>",
    "{{ reasoning_effort }}[THINK]",
    "{{ reasoning_effort }}{{ reasoning_mode_token }}no_think",
)
FLAGS: tuple[dict[str, Any], ...] = (
    {},
    *({flag: value} for flag in ("thinking", "enable_thinking") for value in (True, False)),
    *({"reasoning_effort": effort} for effort in ("none", "no_think", "high")),
    *({"thinking_mode": mode} for mode in ("enabled", "disabled")),
)


def differences(name: str, template: str | None) -> Iterator[dict[str, Any]]:
    """Yield the chat_template_kwargs with which the two differ."""
    tokenizer: Any = SimpleNamespace(chat_template=template, get_vocab=dict)
    parsers = ReasoningParserFactory(name, tokenizer, tokenizer, {})
    always, toggle = detect_reasoning_pattern(template)
    server = SimpleNamespace(
        reasoning_parser=name,
        template_manager=SimpleNamespace(reasoning_config=toggle),
        _reasoning_detector=ReasoningParser(name).detector,
    )
    for flags in FLAGS:
        effort = flags.get("reasoning_effort")
        if effort is None and toggle is not None and toggle.special_case == HUNYUAN_EFFORT:
            effort = "high"  # as normalize_hunyuan_reasoning_effort has it
        request = SimpleNamespace(chat_template_kwargs=flags, reasoning_effort=effort)
        if parsers.is_forced(flags) != (
            always or OpenAIServingChat._get_reasoning_from_request(server, request)
        ):
            yield flags


if __name__ == "__main__":
    for name in filterfalse(find_own_name, ReasoningParser.DetectorMap):
        for template in TEMPLATES:
            for flags in differences(name, template):
                sys.stdout.write(f"DIFFERS {name} {template!r} {flags}\n")
    sys.stdout.write("DONE\n")
