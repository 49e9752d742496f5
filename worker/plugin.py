"""Entry point `vllm.general_plugins`: adds the flags, and does nothing else without them.

vLLM loads plugins in every one of its processes, so this module imports nothing
of ours until a flag is seen. `AsyncEngineArgs.add_cli_args` loads them before it
adds the engine's flags, which is the one moment to add ours.
"""

from __future__ import annotations

import functools
import sys
from typing import Any


def register() -> None:
    """Add the flags to vLLM's argument parser, and let them take effect in Dynamo."""
    from vllm.engine.arg_utils import EngineArgs

    add_cli_args = EngineArgs.add_cli_args
    if hasattr(add_cli_args, "__wrapped__"):
        return  # the plugins are loaded once more in some processes

    @functools.wraps(add_cli_args)
    def with_flags(parser: Any) -> Any:
        from . import flags

        parser = add_cli_args(parser)
        flags.add_to(parser)
        return parser

    EngineArgs.add_cli_args = staticmethod(with_flags)
    if "dynamo.vllm.args" in sys.modules:
        from .vllm import watch_arguments

        watch_arguments()
