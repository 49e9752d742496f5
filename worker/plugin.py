"""The entry points that the engines call; they add our flags and the patches that obey them.

The engines load plugins in each of their processes, so this module imports the rest of Backedge
only when flags are about to be parsed.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import importlib
import importlib.abc
import importlib.util
import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType

from typing_extensions import override

VLLM_WORKER = "dynamo.vllm.args"
# Flags of that worker; `vllm serve` refuses those that begin like this.
OUR_FLAGS = ("--vllm-processing", "--postprocess-")
SERVE = "backedge.engines.vllm.serve"
SERVE_SGLANG = "backedge.engines.sglang.serve"
SGLANG_WORKER = "dynamo.sglang.args"
SERVER_ARGS = "sglang.srt.server_args"
TRTLLM_PACKAGE = "dynamo.trtllm"
# Its loading follows that of the module with Dynamo's flags, which imports torch.
LLM_WORKER = "dynamo.trtllm.workers.llm_worker"
AddFlags = Callable[[argparse.ArgumentParser], argparse.ArgumentParser]


def register() -> None:
    """Add our flags to Dynamo's vLLM worker, and our parsers' names to vLLM's own server.

    Entry point `vllm.general_plugins`. `AsyncEngineArgs.add_cli_args` loads it just before it
    adds the engine's flags; ours cannot be added at any other time.
    """
    from vllm.engine import arg_utils

    engine_args = getattr(arg_utils, "EngineArgs", None)
    add_cli_args = getattr(engine_args, "add_cli_args", None)
    if hasattr(add_cli_args, "__wrapped__"):
        return  # some processes load the plugins twice
    if engine_args is not None and add_cli_args is not None:
        engine_args.add_cli_args = staticmethod(with_flags(add_cli_args))
    if VLLM_WORKER not in sys.modules:
        for module, patch in VLLM_TABLES.items():
            when_loaded(module, patch)
        return
    from ..base.engines import has_engine, load_engine_module

    if has_engine("vllm"):
        load_engine_module("vllm", "worker").watch_arguments()


def with_flags(add_cli_args: AddFlags) -> AddFlags:
    """Return vLLM's function that adds flags; ours come with Dynamo's worker alone."""

    @functools.wraps(add_cli_args)
    def add_all(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
        extended = add_cli_args(parser)
        in_worker = VLLM_WORKER in sys.modules
        if in_worker or any(word.replace("_", "-").startswith(OUR_FLAGS) for word in sys.argv):
            from ..base.engines import has_engine
            from . import flags

            if not in_worker:
                flags.refuse_flags(extended, "vllm", OUR_FLAGS)
            elif has_engine("vllm"):
                flags.add_flags(extended, "vllm")
        return extended

    return add_all


def name_tool_parsers(module: ModuleType) -> None:
    """Add our names to vLLM's table of tool-call parsers."""
    from ..base import server_names

    for name in server_names.list_names(server_names.TOOL_CALL_PARSERS):
        module.ToolParserManager.register_lazy_module(name, SERVE, "ToolNames")


def name_reasoning_parsers(module: ModuleType) -> None:
    """Add our names to vLLM's table of reasoning parsers."""
    from ..base import server_names

    for name in server_names.list_names(server_names.REASONING_PARSERS):
        module.ReasoningParserManager.register_lazy_module(name, SERVE, "ReasoningInGrammar")


def serve_by_name(module: ModuleType) -> None:
    """Have vLLM's server get one parser for reasoning and calls where a flag names one of ours."""
    from ..base.server_names import find_own_name

    manager = module.ParserManager
    get_parser = manager.get_parser

    @functools.wraps(get_parser)
    def find_parser(*args: object, **options: object) -> object:
        calls = options.get("tool_parser_name") if options.get("enable_auto_tools") else None
        if any(map(find_own_name, (calls, options.get("reasoning_parser_name")))):
            return importlib.import_module(SERVE).find_parser(**options)
        return get_parser(*args, **options)

    manager.get_parser = staticmethod(find_parser)


# The modules with vLLM's tables, which its processes import when they need them.
VLLM_TABLES = {
    "vllm.tool_parsers": name_tool_parsers,
    "vllm.reasoning": name_reasoning_parsers,
    "vllm.parser": serve_by_name,
}


def register_sglang() -> None:
    """Add the flags to those of Dynamo's SGLang worker and make them effective.

    Entry point `sglang.srt.platforms`: SGLang loads no other plugins before it parses flags.
    It returns None, so SGLang ignores it as a platform and uses its own.
    """
    module = sys.modules.get(SERVER_ARGS)
    if module is not None and hasattr(module, "ServerArgs"):
        patch_add_cli_args(module)
    else:
        install_hook(SERVER_ARGS, patch_add_cli_args)
    for name, patch in SGLANG_TABLES.items():
        when_loaded(name, patch)


def list_sglang_names(module: ModuleType) -> None:
    """Add our names to SGLang's lists, from which its flags have their choices."""
    from ..base.server_names import REASONING_PARSERS, TOOL_CALL_PARSERS, list_names

    if SGLANG_WORKER not in sys.modules:
        for names, ours in (
            ("TOOL_CALL_PARSER_NAMES", TOOL_CALL_PARSERS),
            ("REASONING_PARSER_NAMES", REASONING_PARSERS),
        ):
            getattr(module, names, []).extend(list_names(ours))


def add_sglang_calls(module: ModuleType) -> None:
    """Add our parsers to SGLang's table of tool-call parsers."""
    from ..base.server_names import TOOL_CALL_PARSERS

    fill_table(module.FunctionCallParser.ToolCallParserEnum, TOOL_CALL_PARSERS, build_calls)


def add_sglang_reasoning(module: ModuleType) -> None:
    """Add our parsers to SGLang's table of reasoning parsers."""
    from ..base.server_names import REASONING_PARSERS

    fill_table(module.ReasoningParser.DetectorMap, REASONING_PARSERS, build_reasoning)


def fill_table(
    table: dict[str, Callable[..., object]], parsers: list[str], build: Callable[..., object]
) -> None:
    """Add functions that build our parsers, except in Dynamo's worker. build: by our name."""
    from ..base.server_names import find_own_name, list_names

    if SGLANG_WORKER not in sys.modules:
        for name in list_names(parsers):
            table[name] = functools.partial(build, find_own_name(name))


def build_calls(name: str, tokenizer: object = None) -> object:
    """Return our detector of calls for SGLang's server."""
    return importlib.import_module(SERVE_SGLANG).CallDetector(name, tokenizer)


def build_reasoning(
    name: str,
    *,
    tokenizer: object = None,
    tool_call_parser_active: bool = False,
    **options: object,
) -> object:
    """Return our detector of reasoning for SGLang's server, which reads this signature."""
    serve = importlib.import_module(SERVE_SGLANG)
    calls = serve.find_call_parser() if tool_call_parser_active else None
    return serve.ReasoningDetector(name, tokenizer=tokenizer, call_parser=calls, **options)


# The modules with SGLang's tables and lists of names.
SGLANG_TABLES = {
    "sglang.srt.function_call.parser_names": list_sglang_names,
    "sglang.srt.parser.reasoning_parser_names": list_sglang_names,
    "sglang.srt.function_call.function_call_parser": add_sglang_calls,
    "sglang.srt.parser.reasoning_parser": add_sglang_reasoning,
}


def register_trtllm() -> None:
    """Add the flags to those of Dynamo's TensorRT-LLM worker and make them effective.

    Entry point `torch.backends`, because TensorRT-LLM has no plugins. Torch loads it at the end of
    its own import, in every process; it does nothing unless the process is that worker.
    """
    if TRTLLM_PACKAGE in sys.modules:
        install_hook(LLM_WORKER, patch_trtllm)


def when_loaded(module_name: str, patch: Callable[[ModuleType], None]) -> None:
    """Call `patch` with a module, at once if it is loaded.

    If it lacks what is to be patched, the engine is of another version and keeps its own parsers:
    the engine's start may not fail for it.
    """

    def patch_if_known(module: ModuleType) -> None:
        with contextlib.suppress(AttributeError):
            patch(module)

    if module_name in sys.modules:
        patch_if_known(sys.modules[module_name])
    else:
        install_hook(module_name, patch_if_known)


def install_hook(module_name: str, patch: Callable[[ModuleType], None]) -> None:
    """Call `patch` with a module once it is loaded. It must not be loaded yet."""
    hooks = (finder for finder in sys.meta_path if isinstance(finder, Hook))
    if module_name not in {hook.module_name for hook in hooks}:
        sys.meta_path.insert(0, Hook(module_name, patch))


class Hook(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds one module, loads it as its own loader does, and then calls `patch` with it.

    Needed because the engines load plugins while their own modules are being imported.
    """

    def __init__(self, module_name: str, patch: Callable[[ModuleType], None]) -> None:
        self.module_name = module_name
        self._patch = patch
        self._spec: ModuleSpec
        self._loader: importlib.abc.Loader

    @override
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != self.module_name:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        if spec is not None and spec.loader is not None:
            self._spec, self._loader, spec.loader = spec, spec.loader, self
        return spec

    @override
    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    @override
    def exec_module(self, module: ModuleType) -> None:
        self._spec.loader = module.__loader__ = self._loader
        self._loader.exec_module(module)
        self._patch(module)


def patch_add_cli_args(module: ModuleType) -> None:
    """Have `ServerArgs` of SGLang's `module` add our flags if Dynamo's worker parses them."""
    server_args = getattr(module, "ServerArgs", None)
    add_cli_args = getattr(server_args, "add_cli_args", None)
    if server_args is None or add_cli_args is None or hasattr(add_cli_args, "__wrapped__"):
        return

    @functools.wraps(add_cli_args)
    def add_all(parser: argparse.ArgumentParser) -> None:
        add_cli_args(parser)
        if SGLANG_WORKER in sys.modules:  # otherwise this is SGLang's own server
            from ..base.engines import has_engine, load_engine_module
            from . import flags

            if has_engine("sglang"):
                flags.add_flags(parser, "sglang")
                load_engine_module("sglang", "worker").watch_arguments(parser)

    server_args.add_cli_args = staticmethod(add_all)


def patch_trtllm(_: ModuleType) -> None:
    """Have Dynamo's TensorRT-LLM worker add our flags before it parses its own."""
    from ..base.engines import has_engine, load_engine_module

    if has_engine("trtllm"):
        load_engine_module("trtllm", "worker").watch_arguments()
