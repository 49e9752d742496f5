"""Starts Dynamo's frontend with Backedge's engine factory."""

from __future__ import annotations

import argparse
import functools
import os
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec

from ..base import gc_freeze
from ..base.engines import load_engine_module
from ..base.errors import SetupError, exiting
from ..base.etcd import check_etcd
from ..base.flags import MAX_PORT, run_parser
from ..base.limits import BODY_MB
from ..base.log import get_logger
from ..base.ports import check_port
from ..base.seams import check_seams, read_version
from ..engines.dynamo import seams
from ..engines.dynamo.types import FrontendConfig, Runtime
from ..parsers.base import ParserNames
from ..parsers.response_template import DESCRIBED
from ..tokenization.tokenizer_selection import BACKEND_FLAG, Backend, is_installed
from .flags import ENGINES, PARSERS_FLAG, FrontendFlags, parse_flags
from .handover import CHAT_PROCESSOR_FLAG

logger = get_logger(__name__)

# How long a thread keeps the interpreter while others wait. Python's default of 5 ms would be added
# to every delta that is sent while a prompt is rendered.
SWITCH_INTERVAL_S = 0.0005
# Our defaults for Dynamo's own variables; values that the user sets are kept.
ENVIRONMENT = {
    # Dynamo waits this long for a stream's first chunk before it commits to HTTP 200, so errors
    # before the first chunk are HTTP errors for streams as well.
    "DYN_HTTP_PRE_COMMIT_ERROR_PEEK_MS": "500",
    # Dynamo's own 45 MB of template variables stop all streams for seconds.
    "DYN_HTTP_BODY_LIMIT_MB": str(BODY_MB),
    # vLLM's validation takes a tenth of the time of pydantic's.
    "DYN_VLLM_SKIP_REQUEST_VALIDATION": "0",
    # Each prompt is tokenized in one thread: the other cores serve streams and other prompts.
    "TOKENIZERS_PARALLELISM": "false",
}


def main() -> None:
    """Run `dynamo.frontend` with all its flags and Backedge's engine factory.

    Raises SystemExit for flags that contradict each other.
    """
    frontend_flags = parse_flags(sys.argv[1:])
    gc_freeze.pause()  # until `build_engine_factory`
    sys.setswitchinterval(min(sys.getswitchinterval(), SWITCH_INTERVAL_S))
    off = check_dynamo()
    # Dynamo 1.7 would choose the number by the processors.
    os.environ.setdefault("DYN_PREPROCESS_WORKERS", "0")
    sys.argv[1:] = [
        *frontend_flags.other_arguments,
        CHAT_PROCESSOR_FLAG,
        frontend_flags.chat_processor,
    ]
    from dynamo.frontend import __main__ as dynamo_entry
    from dynamo.frontend import main as dynamo_main

    if seams.JEMALLOC not in off:
        dynamo_entry._maybe_preload_jemalloc()  # noqa: SLF001 - DYN_FRONTEND_JEMALLOC asks for it
    runtimes: list[Runtime] = []  # the one that Dynamo creates
    make_runtime = dynamo_main.DistributedRuntime

    def create_runtime(*args: object, **kwargs: object) -> Runtime:
        runtimes.append(make_runtime(*args, **kwargs))
        return runtimes[-1]

    def set_up(config: FrontendConfig, flags: argparse.Namespace) -> object:
        return build_engine_factory(config, flags, frontend_flags, *runtimes)

    dynamo_main.parse_args = with_checks(dynamo_main.parse_args, frontend_flags)
    dynamo_main.DistributedRuntime = create_runtime
    dynamo_main.setup_engine_factory = dynamo_main.setup_sglang_engine_factory = set_up
    dynamo_main.main()


Parsed = tuple[FrontendConfig, argparse.Namespace | None, argparse.Namespace | None]
"""What Dynamo's `parse_args` returns: its configuration, vLLM's flags and SGLang's."""


def with_checks(
    parse_args: Callable[[], Parsed], frontend_flags: FrontendFlags
) -> Callable[[], Parsed]:
    """Wrap Dynamo's `parse_args` to refuse what cannot be served before etcd is reached."""

    @functools.wraps(parse_args)
    def parse_and_check() -> Parsed:
        with exiting(prefix=""):
            config, *parsed = found = run_parser(lambda _: parse_args(), None)
            for flags in filter(None, parsed):
                check_start(config, flags, frontend_flags)
            if not config.interactive:
                check_port("--http-port", config.http_host, config.http_port)
            check_etcd(config.discovery_backend)
        return found

    return parse_and_check


def check_dynamo() -> frozenset[str]:
    """Return the features that the installed Dynamo lacks.

    Raises SystemExit for a version of Dynamo that Backedge does not support.
    """
    with exiting(prefix=""):
        return check_seams(seams.FRONTEND, seams.PACKAGES)


def build_engine_factory(
    config: FrontendConfig,
    flags: argparse.Namespace,
    frontend_flags: FrontendFlags,
    runtime: Runtime | None = None,
) -> object:
    """Build our engine factory, which replaces Dynamo's `setup_engine_factory` and SGLang's.

    runtime: the one that Dynamo has created.
    After this call Dynamo imports its processor and builds its HTTP service, and reads the
    environment variables.
    """
    gc_freeze.resume()
    for variable, value in ENVIRONMENT.items():
        os.environ.setdefault(variable, value)
    from .factory import EngineFactory

    logger.info("%s", describe_frontend(frontend_flags, flags))
    return EngineFactory(config, flags, frontend_flags, runtime)


def describe_frontend(ours: FrontendFlags, flags: argparse.Namespace) -> str:
    """Return the log's first line: version, and the flags that matter. flags: Dynamo's parsed."""
    names = ParserNames(flags.tool_call_parser or None, flags.reasoning_parser or None)
    record, turns = ours.record, ours.turns
    return (
        f"backedge {read_version('backedge')}, a frontend of Dynamo {read_version('ai-dynamo')}: "
        f"tokenizer {ours.tokenizer.label}, parsers of plain workers {names.label}, prompt cache "
        f"{ours.prompt_cache_mb} MB, recordings {'none' if record is None else record.folder}, "
        f"kept turns {'none' if turns is None else turns.mode}, "
        f"engine {ours.user_engine or 'Dynamo'}"
    )


def check_start(
    config: FrontendConfig, flags: argparse.Namespace, frontend_flags: FrontendFlags
) -> None:
    """Raise `SetupError` for flags without effect here, or with which no model could be served.

    config, flags: Dynamo's, parsed. Sets the latter's `postprocess_parsers`.
    """
    from .factory import find_user_engine

    if config.preprocess_workers:
        raise SetupError(
            f"--dyn-preprocess-workers {config.preprocess_workers}: Backedge preprocesses in "
            "threads; leave the flag out."
        )
    if not 0 <= config.http_port <= MAX_PORT:
        raise SetupError(f"--http-port {config.http_port}: a port is at most {MAX_PORT}.")
    if frontend_flags.parsers is not None:
        flags.postprocess_parsers = frontend_flags.parsers
    check_model_flags(flags, frontend_flags.tokenizer.backend)
    frontend_flags.tokenizer.check_class()
    if (name := frontend_flags.user_engine) is not None:
        find_user_engine(name)


def _check_native(names: ParserNames, backend: Backend | None) -> None:
    """Raise `SetupError` unless something has native parsers of these names.

    transformers, which reads a checkpoint's own description, is there for any back end.
    """
    if backend not in (None, *ENGINES) and DESCRIBED not in msgspec.structs.astuple(names):
        raise SetupError(
            f"{PARSERS_FLAG} native: only {BACKEND_FLAG} vllm and sglang provide an engine's own "
            f"parsers; choose one of them, or leave {PARSERS_FLAG} out."
        )


def check_model_flags(flags: argparse.Namespace, backend: Backend | None) -> None:
    """Raise `SetupError` for a parser or a chat template with which no model could be served.

    backend: of the tokenizer; None if each model's workers decide.
    """
    from ..templates.chat_template import compile_template, read_template_file
    from .parser_selection import check_names

    engines = [name for name in ENGINES if backend in (None, name) and is_installed(name)]
    # A plugin's parsers are not known yet.
    if getattr(flags, "tool_parser_plugin", None) is None:
        kind = getattr(flags, "postprocess_parsers", "auto")
        names = ParserNames(flags.tool_call_parser or None, flags.reasoning_parser or None)
        if kind == "native":
            _check_native(names, backend)
        check_names(names, () if kind == "linear" else engines)
    if not (given := flags.chat_template):
        return
    if "vllm" in engines and not Path(given).is_file():
        load_engine_module("vllm", "frontend").check_template_name(given)
    else:
        compile_template(read_template_file(given))
