"""Provides the contract kit `backedge.testing.tokenizer_kit` under its public name.

python -m backedge.tokenization.kit my_package:MyTokenizer --model PATH
"""

from __future__ import annotations

import importlib
import runpy


def __getattr__(name: str) -> object:
    """Return an attribute of the kit. Loaded late, because the kit imports this folder."""
    kit = importlib.import_module("backedge.testing.tokenizer_kit")
    if name not in kit.__all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(kit, name)


if __name__ == "__main__":
    runpy.run_module("backedge.testing.tokenizer_kit", run_name="__main__", alter_sys=True)
