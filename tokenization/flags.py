"""The flags that select a tokenizer, for both worker and frontend."""

from __future__ import annotations

import argparse
from typing import Any, Literal, get_args

import msgspec

from ..base.errors import SetupError

Backend = Literal["huggingface", "vllm", "sglang", "python"]
BACKENDS: tuple[Backend, ...] = get_args(Backend)
BACKEND_FLAG, MODULE_FLAG, CLASS_FLAG = (
    "--tokenizer-backend",
    "--tokenizer-module",
    "--tokenizer-class",
)
# Only for the frontend: a module that a worker may name on its model card.
ALLOW_MODULE_FLAG = "--allow-tokenizer-module"
# Names and options of argparse's add_argument.
FLAGS: tuple[tuple[tuple[str, ...], dict[str, Any]], ...] = (
    (
        (BACKEND_FLAG,),
        {
            "choices": BACKENDS,
            "default": None,
            "help": "What renders and tokenizes: 'huggingface': the model's tokenizer.json and "
            "chat template; 'vllm', 'sglang': the engine's own renderer and tokenizers; 'python': "
            "your class. Default: the engine of the model's workers if the frontend has it "
            "installed, else 'huggingface'.",
        },
    ),
    (
        (MODULE_FLAG,),
        {
            "default": None,
            "help": f"For {BACKEND_FLAG} python: the module of the class, importable on both "
            "sides.",
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
    """The values of the flags. backend: None if not set. module, class_name: the user's class."""

    backend: Backend | None = None
    module: str | None = None
    class_name: str | None = None

    def check(self, module_name: str = MODULE_FLAG, class_name: str = CLASS_FLAG) -> None:
        """Raise `SetupError` unless a class is named if, and only if, the back end is "python".

        module_name, class_name: the names of these values in the error.
        """
        for name, value in {module_name: self.module, class_name: self.class_name}.items():
            if self.backend == "python" and not value:
                raise SetupError(
                    f"{BACKEND_FLAG} python needs {name}: the tokenizer is a class of yours."
                )
            if self.backend != "python" and value:
                raise SetupError(
                    f"{name} {value!r} is for {BACKEND_FLAG} python, which is not set; add it, or "
                    f"leave {name} out."
                )


def add_to(parser: argparse.ArgumentParser) -> None:
    """Add the flags to `parser`."""
    for names, options in FLAGS:
        parser.add_argument(*names, **options)


def parse_tokenizer_flags(arguments: argparse.Namespace) -> TokenizerSelection:
    """Return the values of parsed flags. Raises `SetupError` if they contradict each other."""
    # SGLang has a flag of the same name with other values.
    backend = arguments.tokenizer_backend if arguments.tokenizer_backend in BACKENDS else None
    selection = TokenizerSelection(backend, arguments.tokenizer_module, arguments.tokenizer_class)
    selection.check()
    return selection
