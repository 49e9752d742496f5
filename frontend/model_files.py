"""Finds the tokenizer back ends that a model's files suffice for, where no flag names one."""

from __future__ import annotations

import argparse
from pathlib import Path

import msgspec

from ..base.errors import SetupError
from ..parsers.base import ParserNames
from ..parsers.parser_lookup import Kind, uses_native
from ..parsers.response_template import DESCRIBED
from ..templates.auto_parsers import AUTO
from ..templates.chat_template import read_templates
from ..tokenization.model_files import ModelFolder, needs_mistral
from ..tokenization.tokenizer_selection import TokenizerFiles


def find_files(path: str, flags: argparse.Namespace, names: ParserNames) -> TokenizerFiles:
    """Return what the files of a model suffice for.

    path: of its folder. flags: of Dynamo and ours, with chat_template. names: of its parsers.
    """
    kind: Kind = getattr(flags, "postprocess_parsers", "auto")
    folder = Path(path)
    huggingface = (
        (folder / "tokenizer.json").is_file()
        and _has_template(folder, flags.chat_template)
        and not _need_engine(kind, names)
    )
    return TokenizerFiles(huggingface, needs_mistral(folder))


def _has_template(folder: Path, given: str | None) -> bool:
    """Whether there is a chat template in a file: `given` may be one of vLLM's own, or a text."""
    try:
        return bool(read_templates(ModelFolder(folder), given))
    except (SetupError, msgspec.MsgspecError):
        return False


def _need_engine(kind: Kind, names: ParserNames) -> bool:
    """Whether the parsers are the engine's own. `AUTO` and `DESCRIBED` need none."""
    own = [None if name in (AUTO, DESCRIBED) else name for name in msgspec.structs.astuple(names)]
    return uses_native(kind if kind != "linear" else "auto", ParserNames(*own))
