"""The tokenizer and the parsers of a recording's model, found again where they are looked into."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import get_args

from ..base.errors import SetupError
from ..parsers.api import Engine, native_parsers
from ..parsers.base import ParserFactory, ParserNames
from ..parsers.parser_lookup import Kind, linear_parsers, uses_native
from ..parsers.passthrough import PassthroughParsers
from ..templates.model_files import load_tokenizer_json
from ..tokenization.detokenizer import read_vocabulary

ENGINES: tuple[Engine, ...] = get_args(Engine)


def read_tokenizer(path: str) -> object:
    """Return the tokenizer of a model.

    path: of its folder, or its name on a hub if transformers finds it there.
    Raises `SetupError` if there is none that can be read here.
    """
    folder = Path(path)
    if (folder / "tokenizer.json").is_file():
        return load_tokenizer_json(folder)
    if any(folder.glob("tekken.json")) or any(folder.glob("tokenizer.model.v*")):
        if importlib.util.find_spec("mistral_common") is None:
            raise SetupError(f"{path}: its tokenizer needs pip install 'backedge[mistral]'.")
        from ..tokenization.mistral import MistralTokenizer

        return MistralTokenizer(path)
    files = [*folder.glob("*token*"), *folder.glob("vocab*")]
    if folder.is_absolute() and not files:  # transformers takes seconds to say so
        raise SetupError(
            f"{path} is no folder with a tokenizer; name the model's folder with --model."
        )
    return read_engine_tokenizer(path)


def read_engine_tokenizer(path: str) -> object:
    """Return a model's tokenizer as engines have it, for their parsers. Raises as above."""
    if importlib.util.find_spec("transformers") is None:
        raise SetupError(
            f"{path} has no tokenizer.json, and without transformers no other tokenizer is read; "
            "name the model's folder with --model."
        )
    from transformers import AutoTokenizer

    # A recording may come from elsewhere: what it names runs no code here.
    try:
        tokenizer: object = AutoTokenizer.from_pretrained(path, trust_remote_code=False)
    except Exception as error:
        # Whatever a tokenizer's files make transformers raise.
        reason = " ".join(str(error).split())[:300]
        raise SetupError(
            f"{path} has no tokenizer that can be read here ({reason}); name the model's folder "
            "with --model."
        ) from error
    return tokenizer


def build_parsers(
    names: ParserNames, kind: Kind, path: str, tokenizer: object, engine: str = ""
) -> tuple[ParserFactory, str]:
    """Return the parsers of these names, and what they are: "linear", "native" or "none".

    path, tokenizer: of the model, as for `read_tokenizer`. engine: whose native parsers to use;
        the first that is installed if it is none of the three.
    Raises `SetupError` for parsers that do not exist, or not here.
    """
    if names == ParserNames():
        return PassthroughParsers(), "none"
    if not uses_native(kind, names):
        return linear_parsers(names, read_vocabulary(tokenizer)), "linear"
    known = engine if engine in ENGINES else None
    return native_parsers(known, read_engine_tokenizer(path), names), "native"
