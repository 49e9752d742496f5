"""Replaces `auto` in a worker's flags before the engine reads its part of them."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Collection
from pathlib import Path

import msgspec

from ..templates.auto_parsers import AUTO, resolve_auto
from .flags import EngineName, read_parser_names

# Flags of each engine that name files for detection, best first.
MODEL_FLAGS: dict[EngineName, tuple[str, ...]] = {
    "vllm": ("tokenizer", "model"),
    "sglang": ("tokenizer_path", "model_path"),
    "trtllm": ("tokenizer", "model", "model_path"),
}
# SGLang's value may be the name of one of its own templates.
TEMPLATE_FLAGS = ("custom_jinja_template", "chat_template")


def resolve_auto_names(
    arguments: argparse.Namespace,
    engine: EngineName,
    known: Callable[[str], Collection[str]] = lambda _: (),
    chat_template: str | None = None,
) -> None:
    """Replace "auto" by the names of the model's parsers.

    Changes nothing without post-processing, because SGLang has its own "auto".
    known, chat_template: as for `resolve_auto`, whose errors this raises.
    """
    names = read_parser_names(arguments)
    if AUTO not in msgspec.structs.astuple(names) or not getattr(arguments, f"{engine}_processing"):
        return
    model = next(filter(None, (getattr(arguments, flag, None) for flag in MODEL_FLAGS[engine])), "")
    given = (chat_template, *(getattr(arguments, flag, None) for flag in TEMPLATE_FLAGS))
    templates = [str(path) for path in given if path and Path(path).is_file()]
    found = resolve_auto(
        names,
        str(model),
        revision=getattr(arguments, "revision", None),
        chat_template=next(
            (str(path) for path in templates if path and Path(path).is_file()), None
        ),
        known=known,
    )
    arguments.tool_call_parser, arguments.reasoning_parser = found.tool_call, found.reasoning
