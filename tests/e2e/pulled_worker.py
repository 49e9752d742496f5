"""Runs a worker of which Dynamo pulls all chunks, as a Dynamo does that has no senders.

python -m tests.e2e.pulled_worker backedge.worker.demo --tokens-per-second 100
"""

from __future__ import annotations

import inspect
import runpy
import sys
from collections.abc import Callable
from typing import Any

read_signature = inspect.signature


def hide_sender(function: Callable[..., object], **options: Any) -> inspect.Signature:
    """Return the signature of a function without the parameter that Dynamo looks for."""
    signature = read_signature(function, **options)
    parameters = signature.parameters.values()
    return signature.replace(
        parameters=[each for each in parameters if each.name != "response_sender"]
    )


if __name__ == "__main__":
    inspect.signature = hide_sender  # type: ignore[assignment]  # it takes the same
    del sys.argv[0]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
