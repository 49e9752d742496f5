"""The entry points that the engines call: they add our flags, which then do the rest.

The engines load plugins in each of their processes, so this module imports nothing of ours
until flags are about to be parsed.
"""

from __future__ import annotations

import argparse
import functools
import importlib.abc
import importlib.util
import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType

from typing_extensions import override

SERVER_ARGS = "sglang.srt.server_args"


def register() -> None:
    """Add the flags to vLLM's argument parser, and let them take effect in Dynamo.

    Entry point `vllm.general_plugins`: `AsyncEngineArgs.add_cli_args` loads them before
    it adds the engine's flags, the only moment to add ours.
    """
    from vllm.engine.arg_utils import EngineArgs

    add_cli_args = EngineArgs.add_cli_args
    if hasattr(add_cli_args, "__wrapped__"):
        return  # some processes load the plugins twice

    @functools.wraps(add_cli_args)
    def with_flags(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
        from . import flags

        extended: argparse.ArgumentParser = add_cli_args(parser)
        flags.add_flags(extended, "vllm")
        return extended

    EngineArgs.add_cli_args = staticmethod(with_flags)
    if "dynamo.vllm.args" in sys.modules:
        from .adapters.vllm import watch_arguments

        watch_arguments()


def register_sglang() -> None:
    """Add the flags to those of Dynamo's SGLang worker, and let them take effect.

    Entry point `sglang.srt.platforms`: SGLang loads no other plugins before it parses flags.
    Returning None, this one is no platform, and SGLang takes its own.
    """
    module = sys.modules.get(SERVER_ARGS)
    if module is not None and hasattr(module, "ServerArgs"):
        patch_add_cli_args(module)
    elif not any(isinstance(finder, ServerArgsFinder) for finder in sys.meta_path):
        sys.meta_path.insert(0, ServerArgsFinder())


class ServerArgsFinder(importlib.abc.MetaPathFinder):
    """Finds the module of SGLang's flags, so that ours are added as soon as it is loaded.

    SGLang asks for platforms while it is still being imported.
    """

    @override
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != SERVER_ARGS:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        if spec is not None and spec.loader is not None:
            spec.loader = FlagsLoader(spec, spec.loader)
        return spec


class FlagsLoader(importlib.abc.Loader):
    """Loads a module as `loader` does, then calls `patch_add_cli_args`; leaves `spec` as it was."""

    def __init__(self, spec: ModuleSpec, loader: importlib.abc.Loader) -> None:
        self._spec = spec
        self._loader = loader

    @override
    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    @override
    def exec_module(self, module: ModuleType) -> None:
        self._spec.loader = module.__loader__ = self._loader
        self._loader.exec_module(module)
        patch_add_cli_args(module)


def patch_add_cli_args(module: ModuleType) -> None:
    """Have the `ServerArgs` of SGLang's `module` add our flags if Dynamo's worker parses them."""
    add_cli_args: Callable[[argparse.ArgumentParser], None] = module.ServerArgs.add_cli_args
    if hasattr(add_cli_args, "__wrapped__"):
        return

    @functools.wraps(add_cli_args)
    def with_flags(parser: argparse.ArgumentParser) -> None:
        add_cli_args(parser)
        if "dynamo.sglang.args" in sys.modules:  # else this is SGLang's own server
            from . import flags
            from .adapters.sglang import watch_arguments

            flags.add_flags(parser, "sglang")
            watch_arguments(parser)

    module.ServerArgs.add_cli_args = staticmethod(with_flags)
