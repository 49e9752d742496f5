"""Starts Dynamo's frontend with Backedge's engine factory."""

from __future__ import annotations

import argparse
import functools
import os
import socket
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import get_args

import msgspec

from ..base import gc_freeze
from ..base.engines import load_engine_module
from ..base.errors import SetupError, exiting
from ..base.etcd import check_etcd
from ..base.flags import (
    MAX_PORT,
    FlagParser,
    add_to,
    check_misspelt,
    check_variables,
    flag,
)
from ..base.limits import BODY_MB, PROMPT_CACHE_MB
from ..base.log import get_logger
from ..base.seams import check_seams, read_version
from ..engines.dynamo import seams
from ..engines.dynamo.types import FrontendConfig, Runtime
from ..parsers.base import ParserNames
from ..parsers.parser_lookup import Kind
from ..parsers.response_template import DESCRIBED
from ..recording import flags as record_flags
from ..recording.flags import RecordSettings, read_record_settings
from ..tokenization import tokenizer_selection as tokenizer_flags
from ..tokenization.prompt_encoder import BYTES_PER_MB, PromptCache
from ..tokenization.tokenizer_selection import BACKEND_FLAG, Backend, is_installed
from .handover import CHAT_PROCESSOR_FLAG, PROCESSING
from .turns import flags as turn_flags

logger = get_logger(__name__)

ENGINES: tuple[Backend, ...] = ("vllm", "sglang")
ENGINE_FACTORY_FLAG = "--engine-factory"
PARSERS_FLAG = "--postprocess-parsers"
PROMPT_CACHE_FLAG = "--prompt-cache-mb"
HELP_FLAGS = {"-h", "--help"}


def _parse_size(value: str) -> int:
    try:
        size = int(value)
    except ValueError:
        size = -1
    if size < 0:
        raise argparse.ArgumentTypeError(f"{value!r} is not a number of MB; 0 switches it off")
    return size


PARSERS = flag(
    PARSERS_FLAG,
    dest="parsers",
    choices=get_args(Kind),
    default="auto",
    help="Parsers for plain workers' streams: Backedge's own ('linear') or an engine's ('native').",
)
# The flags of this frontend alone.
FLAGS = (
    flag(
        CHAT_PROCESSOR_FLAG,
        dest="processor",
        help=f"'vllm' and 'sglang' are the same as {BACKEND_FLAG} vllm and sglang.",
    ),
    flag(
        ENGINE_FACTORY_FLAG,
        dest="user_engine",
        metavar="MODULE:CLASS",
        help="Your own factory of engines, which answer the requests.",
    ),
    flag(
        tokenizer_flags.ALLOW_MODULE_FLAG,
        dest="allowed_modules",
        action="append",
        default=[],
        metavar="MODULE",
        help="A module of tokenizers that workers may name; may be repeated.",
    ),
    flag(
        PROMPT_CACHE_FLAG,
        type=_parse_size,
        default=PROMPT_CACHE_MB,
        dest="cache_mb",
        metavar="MB",
        help=f"Memory of the prompt cache of all models; 0 for none. Default: {PROMPT_CACHE_MB}.",
    ),
    PROCESSING,
)
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


SetupFunction = Callable[[FrontendConfig, argparse.Namespace], object]
"""Dynamo's `setup_engine_factory`, which returns an engine factory."""


class FrontendFlags(msgspec.Struct, frozen=True):
    """The flags of `python -m backedge.frontend`.

    tokenizer: without a back end, each model's workers decide.
    parsers: None if vLLM's command line, which has this flag, is parsed as well.
    other_arguments: those passed to Dynamo.
    user_engine: `package.module:Factory`.
    allowed_modules: of tokenizers that workers may name.
    prompt_cache_mb: size of the prompt cache; 0 for no cache.
    record: None to record nothing. turns: None to keep no answers.
    """

    tokenizer: tokenizer_flags.TokenizerSelection
    parsers: Kind | None
    other_arguments: list[str]
    user_engine: str | None = None
    allowed_modules: tuple[str, ...] = ()
    prompt_cache_mb: int = PROMPT_CACHE_MB
    record: RecordSettings | None = None
    turns: turn_flags.TurnSettings | None = None

    @property
    def chat_processor(self) -> str:
        """Dynamo's chat processor whose command line is used.

        SGLang's takes only the flags that every back end needs, and imports nothing of SGLang
        before its factory is called. vLLM's takes vLLM's flags, which its back end needs.
        """
        return "vllm" if self.parsers is None else "sglang"


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
    runtime = RecordedRuntime(dynamo_main.DistributedRuntime)
    dynamo_main.DistributedRuntime = runtime.create

    def replace(original: SetupFunction) -> SetupFunction:
        setup = functools.partial(
            build_engine_factory, frontend_flags=frontend_flags, recorded=runtime
        )
        return functools.update_wrapper(setup, original)

    dynamo_main.parse_args = with_checks(dynamo_main.parse_args, frontend_flags)
    dynamo_main.setup_engine_factory = replace(dynamo_main.setup_engine_factory)
    dynamo_main.setup_sglang_engine_factory = replace(dynamo_main.setup_sglang_engine_factory)
    dynamo_main.main()


Parsed = tuple[FrontendConfig, argparse.Namespace | None, argparse.Namespace | None]
"""What Dynamo's `parse_args` returns: its configuration, vLLM's flags and SGLang's."""


def with_checks(
    parse_args: Callable[[], Parsed], frontend_flags: FrontendFlags
) -> Callable[[], Parsed]:
    """Wrap Dynamo's `parse_args` to refuse what cannot be served before etcd is reached."""

    @functools.wraps(parse_args)
    def parse_and_check() -> Parsed:
        config, *parsed = found = parse_args()
        for flags in filter(None, parsed):
            with exiting(prefix=""):
                check_start(config, flags, frontend_flags)
        check_port(config)
        with exiting(prefix=""):
            check_etcd(config.discovery_backend)
        return found

    return parse_and_check


def check_dynamo() -> frozenset[str]:
    """Return the features that the installed Dynamo lacks.

    Raises SystemExit for a version of Dynamo that Backedge does not support.
    """
    with exiting(prefix=""):
        return check_seams(seams.FRONTEND, seams.PACKAGES)


class RecordedRuntime:
    """Keeps the runtime that Dynamo creates, for users' engines: a process has only one."""

    def __init__(self, make: Callable[..., Runtime]) -> None:
        self._make = make
        self.runtime: Runtime | None = None

    def create(self, *args: object, **kwargs: object) -> Runtime:
        """Create the runtime for Dynamo."""
        self.runtime = self._make(*args, **kwargs)
        return self.runtime


def parse_flags(arguments: Sequence[str]) -> FrontendFlags:
    """Parse the flags. Raises SystemExit for flags that contradict each other."""
    parser = FlagParser(
        "backedge.frontend",
        usage=argparse.SUPPRESS,
        description="The flags of Backedge; those of dynamo.frontend follow.",
        add_help=False,
    )
    table = (*FLAGS, *tokenizer_flags.FLAGS, *record_flags.FLAGS, *turn_flags.FLAGS)
    known = [name for names, _ in (*table, PARSERS) for name in names]
    check_variables(known)
    add_to(parser, table)
    if not HELP_FLAGS.isdisjoint(arguments):
        add_to(parser, [PARSERS])
        # Dynamo's parser then prints its own help, and ends the process.
        sys.stdout.write(f"{parser.format_help()}\n")
    parsed, rest = parser.parse_known_args(arguments)
    tokenizer = _select_tokenizer(parsed)
    with exiting(prefix=""):
        check_misspelt(rest, known)
        turns = turn_flags.read_turn_settings(parsed)
    backend = tokenizer.backend
    parsers: Kind | None = None
    if backend != "vllm" and not (backend is None and is_installed("vllm")):
        parsers, rest = _parse_parsers_flag(rest)
    return FrontendFlags(
        tokenizer,
        parsers,
        rest,
        parsed.user_engine,
        tuple(parsed.allowed_modules),
        parsed.cache_mb,
        read_record_settings(parsed),
        turns,
    )


def _select_tokenizer(parsed: argparse.Namespace) -> tokenizer_flags.TokenizerSelection:
    """Return the tokenizer selected by the flags, including `--dyn-chat-processor`."""
    if parsed.processor not in (None, *ENGINES):
        raise SystemExit(
            f"{CHAT_PROCESSOR_FLAG} {parsed.processor!r}: backedge.frontend renders and tokenizes "
            f"itself; leave the flag out, choose a back end with {BACKEND_FLAG}, or run "
            "python -m dynamo.frontend."
        )
    if parsed.processor is not None and parsed.tokenizer_backend not in (None, parsed.processor):
        raise SystemExit(
            f"{CHAT_PROCESSOR_FLAG} {parsed.processor} means {BACKEND_FLAG} {parsed.processor}, "
            f"but {BACKEND_FLAG} is {parsed.tokenizer_backend!r}; leave one of the two flags out."
        )
    parsed.tokenizer_backend = parsed.tokenizer_backend or parsed.processor
    with exiting(prefix=""):
        tokenizer = tokenizer_flags.parse_tokenizer_flags(parsed)
        if tokenizer.backend is not None:
            tokenizer_flags.check_installed(tokenizer.backend)
        return tokenizer


def _parse_parsers_flag(arguments: Sequence[str]) -> tuple[Kind, list[str]]:
    """Return the parsers for plain workers' streams, and the other arguments."""
    parser = FlagParser(add_help=False)
    add_to(parser, [PARSERS])
    parsed, rest = parser.parse_known_args(arguments)
    return parsed.parsers, rest


def build_engine_factory(
    config: FrontendConfig,
    flags: argparse.Namespace,
    *,
    frontend_flags: FrontendFlags,
    recorded: RecordedRuntime | None = None,
) -> object:
    """Build our engine factory, which replaces Dynamo's `setup_engine_factory` and SGLang's.

    recorded: the runtime that Dynamo has created.
    After this call Dynamo imports its processor and builds its HTTP service, and reads the
    environment variables.
    Raises SystemExit for flags that cannot be served, and as `check_dynamo`.
    """
    gc_freeze.resume()
    for variable, value in ENVIRONMENT.items():
        os.environ.setdefault(variable, value)
    check_dynamo()
    from .factory import EngineFactory, find_user_engine
    from .metrics import ENDPOINT, FrontendMetrics

    with exiting(prefix=""):
        check_start(config, flags, frontend_flags)
        user_engine = find_user_engine(name) if (name := frontend_flags.user_engine) else None
    logger.info("%s", describe_frontend(frontend_flags, flags))
    runtime = None if recorded is None else recorded.runtime
    cache = PromptCache(frontend_flags.prompt_cache_mb * BYTES_PER_MB)
    tokenizer, allowed = frontend_flags.tokenizer, frontend_flags.allowed_modules
    factory = EngineFactory(
        config, flags, tokenizer, user_engine, allowed, runtime, cache, frontend_flags.record
    )
    factory.keep_turns(frontend_flags.turns)
    if runtime is not None:
        counts = None if factory.recording is None else factory.recording.writer.counts
        metrics = FrontendMetrics(
            factory.prompt_cache, counts, factory.turn_store, factory.local_parsing
        )
        metrics.expose(runtime.endpoint(ENDPOINT))
    return factory


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
    if (name := frontend_flags.user_engine) is not None:
        find_user_engine(name)


def check_port(config: FrontendConfig) -> None:
    """Raise SystemExit unless Dynamo can listen there: it would end with a traceback."""
    if config.interactive:
        return
    host, port = config.http_host, config.http_port
    try:
        with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as listener:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as Dynamo's
            listener.bind((host, port))
    except OSError as error:
        raise SystemExit(
            f"--http-port {port} on --http-host {host}: {error.strerror or error}; choose another."
        ) from error


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
    from .parser_names import check_names

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
