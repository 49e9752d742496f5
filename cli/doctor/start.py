"""Takes a command line through the stage in which its process refuses flags.

Each process is asked by its own functions, with Dynamo's and the engine's parsers, so that what is
accepted here passes that stage. Without them nothing is found.
"""

from __future__ import annotations

import argparse
import pkgutil
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace

from ...base.engines import has_engine, load_engine_module
from ...base.errors import BackedgeError, SetupError
from ...base.flags import FlagParser, find_flags, run_parser
from ...engines.dynamo.types import FrontendConfig
from ...frontend.flags import FrontendFlags, parse_flags
from ...frontend.handover import CHAT_PROCESSOR_FLAG, asks_for_backedge, split_processor
from ...frontend.main import Parsed, check_start
from ...tokenization.tokenizer_selection import parse_tokenizer_flags
from ...worker.flags import read_settings, resolve_auto_names
from ..frontend_flags import find_file
from .engine_flags import FRONTEND_GROUP, add_group, parse_all
from .findings import Finding
from .worker_command import REPLAY, SIDECAR, TRANSFORMERS, WorkerCommand

FRONTEND, STOCK_FRONTEND = "backedge.frontend", "dynamo.frontend"
UNKNOWN_SWITCH = Finding(
    "error",
    "flags",
    f"{STOCK_FRONTEND} does not know Backedge's switches here: it loads plugins only with "
    f"{CHAT_PROCESSOR_FLAG} vllm",
    f"start {FRONTEND} in its place, or run `backedge frontend-flags --install`",
)


def check_worker_start(command: WorkerCommand) -> Iterator[Finding]:
    """Check the command line as its process does; imports the engine, which takes seconds."""
    if (folder := str(Path.cwd())) not in sys.path:
        sys.path.append(folder)  # where `python -m` finds a user's modules
    checks = {REPLAY: check_replay, SIDECAR: check_sidecar, TRANSFORMERS: check_transformers}
    check = checks.get(command.module, check_patched)
    try:
        check(command)
    except (BackedgeError, OSError, ValueError) as error:
        yield Finding("error", "flags", str(error))
    except (ImportError, AttributeError) as error:
        yield Finding(
            "warning",
            "flags",
            f"of the flags only Backedge's were checked, because {command.module} cannot be "
            f"loaded here: {error}",
            "run doctor where the worker runs",
        )
    else:
        yield Finding("ok", "flags", "the worker's process takes all of them")


def check_replay(command: WorkerCommand) -> None:
    """Build the replay worker. Raises as `parse_all`."""
    from ...testing.replay_worker.flags import build_flag_parser, build_worker

    flags = run_parser(build_flag_parser().parse_args, command.arguments)
    parse_tokenizer_flags(flags).check_class(command.model)
    build_worker(flags)


def check_sidecar(command: WorkerCommand) -> None:
    """Parse the sidecar's flags. Raises as `parse_all`."""
    from ...worker.llm_engine import check_dynamo, read_flags
    from ...worker.sidecar import parse_address, parse_arguments

    settings, rest = run_parser(read_flags, command.arguments)
    flags, _ = run_parser(parse_arguments, rest)
    check_dynamo()
    parse_address(flags.engine)
    settings.tokenizer.check_class(command.model)


def check_transformers(command: WorkerCommand) -> None:
    """Parse the flags of the worker around transformers. Raises as `parse_all`."""
    from ...worker.llm_engine import check_dynamo, read_flags

    settings, rest = run_parser(read_flags, command.arguments)
    run_parser(load_engine_module("transformers", "worker").parse_arguments, rest)
    check_dynamo()
    settings.tokenizer.check_class(command.model)


def check_patched(command: WorkerCommand) -> None:
    """Check what Dynamo's own worker of an engine and its patch refuse. Raises as `parse_all`."""
    both = command.flags.tool_call_parser and command.flags.dyn_tool_call_parser
    if command.engine == "sglang" and both:
        raise SetupError(
            "Dynamo's SGLang worker rejects --tool-call-parser with --dyn-tool-call-parser; leave "
            "--tool-call-parser out: the worker takes its parser from the other flag."
        )
    flags, arguments = parse_all(command.engine, command.arguments)
    given = argparse.Namespace(**vars(flags) | vars(arguments))
    if command.is_on:
        resolve_auto_names(given, command.engine)
    settings = read_settings(given, command.engine)
    if settings is None or not has_engine(command.engine):
        return
    worker = load_engine_module(command.engine, "worker").WORKER
    config = SimpleNamespace(**vars(flags), dynamo_args=flags)
    worker(config, settings).check_flags()
    settings.tokenizer.check_class(command.model)


def check_frontend_command(words: Sequence[str]) -> Iterator[Finding]:
    """Check a frontend's command line as its process does."""
    module = FRONTEND if FRONTEND in words else STOCK_FRONTEND
    arguments = list(words[words.index(module) + 1 :])
    if module == STOCK_FRONTEND and asks_for_backedge(arguments):
        processor, arguments = split_processor(arguments)
        if processor != "vllm" and not find_file().is_file():
            yield UNKNOWN_SWITCH
            return
        module = FRONTEND
    flags: FrontendFlags | None = None
    try:
        if module == FRONTEND:
            flags = run_parser(parse_flags, arguments)
            processor = flags.chat_processor
            arguments = [*flags.other_arguments, CHAT_PROCESSOR_FLAG, processor]
        config, models = parse_dynamo_frontend(arguments)
        if flags is not None and models is not None:
            check_start(config, models, flags)
    except (BackedgeError, ValueError) as error:
        yield Finding("error", "flags", str(error))
    except (ImportError, AttributeError):
        text = "Dynamo is not installed here: of the flags only Backedge's were checked"
        yield Finding("note", "flags", text)
    else:
        yield Finding("ok", "flags", "the frontend's process takes all of them")


def parse_dynamo_frontend(
    arguments: Sequence[str],
) -> tuple[FrontendConfig, argparse.Namespace | None]:
    """Return Dynamo's configuration of a frontend, and the flags of its models. Raises as above."""
    parser = FlagParser(add_help=False)
    add_group(parser, FRONTEND_GROUP)
    known = find_flags(parser.format_help())
    parsed, rest = run_parser(parser.parse_known_args, arguments)
    if parsed.chat_processor != "vllm":
        models = FlagParser(add_help=False)
        for name in ("--tool-call-parser", "--reasoning-parser", "--chat-template"):
            if parsed.chat_processor == "sglang":
                models.add_argument(name)
        run_parser(models.parse_args, rest, known)
    parse: Callable[[], Parsed] = pkgutil.resolve_name("dynamo.frontend.main:parse_args")
    before, sys.argv[1:] = sys.argv[1:], arguments
    try:
        config, *flags = run_parser(lambda _: parse(), None, known)
    finally:
        sys.argv[1:] = before
    return config, next(filter(None, flags), None)
