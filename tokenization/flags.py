"""Whose tokenizer a model's requests go through: the flags of a worker and of a frontend, and what they mean."""

from __future__ import annotations

import argparse
from typing import Any, Literal, get_args

import msgspec

from ..parsers.errors import SetupError

Backend = Literal["huggingface", "vllm", "sglang", "python"]
BACKENDS: tuple[Backend, ...] = get_args(Backend)
BACKEND_FLAG, MODULE_FLAG, CLASS_FLAG = (
    "--tokenizer-backend",
    "--tokenizer-module",
    "--tokenizer-class",
)
FLAGS: tuple[tuple[tuple[str, ...], dict[str, Any]], ...] = (
    (
        (BACKEND_FLAG,),
        {
            "choices": BACKENDS,
            "default": None,
            "help": "Who renders and tokenizes: 'huggingface' by the model's tokenizer.json and chat template alone, "
            "'vllm' and 'sglang' by the engine's own renderer and tokenizers, 'python' by a class of yours. Without "
            "this flag, the engine of the model's workers where it is installed in the frontend, else 'huggingface'.",
        },
    ),
    (
        (MODULE_FLAG,),
        {
            "default": None,
            "help": f"For {BACKEND_FLAG} python: the module of the class, importable on both sides.",
        },
    ),
    (
        (CLASS_FLAG,),
        {
            "default": None,
            "help": f"For {BACKEND_FLAG} python: the class; it is called with the model's path.",
        },
    ),
)


class TokenizerSelection(msgspec.Struct, frozen=True):
    """What the flags say. backend: None for nothing. module, class_name: of a class of the user's."""

    backend: Backend | None = None
    module: str | None = None
    class_name: str | None = None


def add_to(group: Any) -> None:
    """Add the flags to an argparse parser or group."""
    for names, options in FLAGS:
        group.add_argument(*names, **options)


def parse_tokenizer_flags(arguments: argparse.Namespace) -> TokenizerSelection:
    """Return what parsed flags say. Raises `SetupError` if they contradict each other."""
    backend = (
        arguments.tokenizer_backend if arguments.tokenizer_backend in BACKENDS else None
    )  # SGLang has others
    choice = TokenizerSelection(backend, arguments.tokenizer_module, arguments.tokenizer_class)
    named = {MODULE_FLAG: choice.module, CLASS_FLAG: choice.class_name}
    for flag, value in named.items():
        if choice.backend == "python" and not value:
            raise SetupError(
                f"{BACKEND_FLAG} python needs {flag}: the tokenizer is a class of yours."
            )
        if choice.backend != "python" and value:
            raise SetupError(
                f"{flag} {value!r} is for {BACKEND_FLAG} python, which is not set; add it, or leave {flag} out."
            )
    return choice
