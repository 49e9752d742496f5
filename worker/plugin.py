"""Entry points of the engines: they add the flags, and do nothing else without them.

The engines load plugins in every one of their processes, so this module imports
nothing of ours until flags are about to be parsed.
"""

from __future__ import annotations

import functools
import importlib.abc
import importlib.util
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

SERVER_ARGS = "sglang.srt.server_args"


def register() -> None:
    """Add the flags to vLLM's argument parser, and let them take effect in Dynamo.

    Entry point `vllm.general_plugins`: `AsyncEngineArgs.add_cli_args` loads them before
    it adds the engine's flags, which is the one moment to add ours.
    """
    from vllm.engine.arg_utils import EngineArgs

    add_cli_args = EngineArgs.add_cli_args
    if hasattr(add_cli_args, "__wrapped__"):
        return  # the plugins are loaded once more in some processes

    @functools.wraps(add_cli_args)
    def with_flags(parser: Any) -> Any:
        from . import flags

        parser = add_cli_args(parser)
        flags.add_to(parser, "vllm")
        return parser

    EngineArgs.add_cli_args = staticmethod(with_flags)
    if "dynamo.vllm.args" in sys.modules:
        from .adapters.vllm import watch_arguments

        watch_arguments()


def register_sglang() -> None:
    """Add the flags to those of Dynamo's SGLang worker, and let them take effect.

    Entry point `sglang.srt.platforms`: no other plugins of SGLang are loaded before it
    parses flags. A platform that is None leaves SGLang its own.
    """
    module = sys.modules.get(SERVER_ARGS)
    if module is not None and hasattr(module, "ServerArgs"):
        add_flags(module)
    elif not any(isinstance(finder, ServerArgsFinder) for finder in sys.meta_path):
        sys.meta_path.insert(0, ServerArgsFinder())


class ServerArgsFinder(importlib.abc.MetaPathFinder):
    """Has the flags added as soon as SGLang's are there: the platforms are asked for in the midst of its imports."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the module's spec as others find it, with a loader that calls `add_flags`."""
        if fullname != SERVER_ARGS:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        if spec is not None and spec.loader is not None:
            spec.loader = FlagsLoader(spec, spec.loader)
        return spec


class FlagsLoader(importlib.abc.Loader):
    """Loads a module as `loader` does, and has the flags added. Leaves `spec` as it was found."""

    def __init__(self, spec: ModuleSpec, loader: importlib.abc.Loader) -> None:
        self._spec = spec
        self._loader = loader

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """See `Loader`."""
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        """See `Loader`."""
        self._spec.loader = module.__loader__ = self._loader
        self._loader.exec_module(module)
        add_flags(module)


def add_flags(module: Any) -> None:
    """Have the `ServerArgs` of SGLang's `module` add our flags where Dynamo's worker parses them."""
    add_cli_args = module.ServerArgs.add_cli_args
    if hasattr(add_cli_args, "__wrapped__"):
        return

    @functools.wraps(add_cli_args)
    def with_flags(parser: Any) -> None:
        add_cli_args(parser)
        if "dynamo.sglang.args" in sys.modules:  # else this is SGLang's own server
            from . import flags
            from .adapters.sglang import watch_arguments

            flags.add_to(parser, "sglang")
            watch_arguments(parser)

    module.ServerArgs.add_cli_args = staticmethod(with_flags)
