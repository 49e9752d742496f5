"""Dynamo's SGLang worker; the first attempt at a call is a script with a slip.

It needs `--enable-custom-logit-processor`.
"""

from __future__ import annotations

from typing import Any

from tests.slips.slipping_sglang import serve

from .scripts import find_script


def choose(sampling: dict[str, Any]) -> dict[str, Any] | None:
    """Return the script of a first attempt; None: the model writes what it likes."""
    script = find_script(sampling.get("sampling_seed"))
    if script is None or sampling.get("structural_tag"):
        return None
    return {"script": {"first": script}, "slips": True}


if __name__ == "__main__":
    # SGLang's scheduler imports the main module again, under another name.
    serve(choose)
