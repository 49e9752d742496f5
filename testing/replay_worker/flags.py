"""The flags of the replay worker, and the worker built from them."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Sequence
from pathlib import Path

from ...base.errors import REASONING_FLAG, TOOL_CALL_FLAG, SetupError
from ...base.flags import FlagParser, add_to, check_variables
from ...base.json_types import JsonObject
from ...base.log import get_logger
from ...parsers.base import ParserNames
from ...recording import flags as record_flags
from ...recording.recording_file import read_recordings
from ...templates.chat_template import ModelPrompts
from ...templates.python_prompts import PythonPrompts
from ...tokenization import load
from ...tokenization import tokenizer_selection as tokenizer_flags
from ...worker.engine_worker import find_names, name_parsers_in_rust
from ...worker.flags import (
    WorkerSettings,
    list_flags,
    list_names,
    read_parser_names,
    read_postprocessing,
)
from ...worker.stock_frontends import complete_names
from ..transcripts import EXAMPLES, Prompts, Recordings, read_transcripts
from .engine import ReplayEngine
from .outputs import RecordedOutputs, RecordedRequests
from .worker import ReplayWorker

logger = get_logger(__name__)

# The flags of a vLLM worker that make sense without an engine.
WORKER_FLAGS = (
    "--tool-call-parser",
    "--reasoning-parser",
    "--postprocess-parsers",
    "--postprocess-on-error",
    "--postprocess-malformed-calls",
    "--postprocess-latency",
    "--postprocess-latency-ms",
    "--postprocess-stock-frontends",
)
# Dynamo's own flags, with its environment variables, defaults and choices, of which the first is
# the default.
RUNTIME_CHOICES = (
    ("--discovery-backend", "DYN_DISCOVERY_BACKEND", ("etcd", "file", "kubernetes", "mem")),
    ("--request-plane", "DYN_REQUEST_PLANE", ("tcp", "nats")),
)
RUNTIME_FLAGS = (
    ("--namespace", "DYN_NAMESPACE", "dynamo"),
    ("--dyn-tool-call-parser", "DYN_TOOL_CALL_PARSER", None),
    ("--dyn-reasoning-parser", "DYN_REASONING_PARSER", None),
    *((flag, variable, choices[0]) for flag, variable, choices in RUNTIME_CHOICES),
)


def add_runtime_flags(parser: argparse.ArgumentParser) -> None:
    """Add those of Dynamo's own flags that make sense without an engine."""
    for flag, variable, default in RUNTIME_FLAGS:
        value = os.environ.get(variable, default)
        parser.add_argument(flag, default=value, help=f"Dynamo's; default: {variable}")


def build_flag_parser() -> argparse.ArgumentParser:
    """Build the parser of the command line."""
    check_variables(list_names())
    parser = FlagParser(prog="python -m backedge.worker.demo")
    parser.description = (
        "A Dynamo worker without a model: it replays recorded outputs as token streams."
    )
    parser.add_argument(
        "--model", type=Path, default=EXAMPLES / "tiny_model", help="folder with tokenizer.json"
    )
    parser.add_argument("--served-model-name", help="default: the folder's name")
    add_output_flags(parser)
    parser.add_argument(
        "--tokens-per-second",
        type=float,
        default=0.0,
        help="per stream; 0 (default): no limit",
    )
    parser.add_argument("--tokens-per-chunk", type=int, default=1, help="default: 1")
    parser.add_argument(
        "--plain", action="store_true", help="leave post-processing to the frontend"
    )
    chosen = (
        (names, {**options, "default": "linear"} if "--postprocess-parsers" in names else options)
        for names, options in list_flags("vllm")
        if names[0] in WORKER_FLAGS
    )
    add_to(parser, (*chosen, *record_flags.FLAGS, *tokenizer_flags.FLAGS))
    add_runtime_flags(parser)
    return parser


def add_output_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags that select what the worker replays."""
    parser.add_argument(
        "--transcripts", type=Path, default=EXAMPLES / "transcripts", help="folder of .jsonl files"
    )
    parser.add_argument(
        "--recordings",
        type=Path,
        help="file of recorded requests instead of transcripts, for `backedge replay --url`",
    )
    parser.add_argument(
        "--match",
        choices=("prompt", "end"),
        default="prompt",
        help="how a transcript is selected: by the request's whole prompt (default), or by its "
        "end, from the content of the last message on",
    )


def find_parsers(flags: argparse.Namespace) -> ParserNames:
    """Return the names of the parsers, with "auto" resolved. Raises as `find_names`."""
    kind = flags.postprocess_parsers
    names = find_names(read_parser_names(flags), str(flags.model), kind)
    names = complete_names(names, name_parsers_in_rust(flags), kind)
    flags.tool_call_parser, flags.reasoning_parser = names.tool_call, names.reasoning
    return names


def build_worker(flags: argparse.Namespace) -> ReplayWorker:
    """Build the worker. Raises `SetupError` for bad flags."""
    check_runtime(flags)
    check_pace(flags)
    check_plain(flags)
    names, selection = find_parsers(flags), tokenizer_flags.parse_tokenizer_flags(flags)
    files = load_prompts(flags)
    engine = ReplayEngine(
        choose_outputs(flags, files),
        tokens_per_second=flags.tokens_per_second,
        tokens_per_chunk=flags.tokens_per_chunk,
        eos_token_ids=files.eos_token_ids,
    )
    settings = WorkerSettings(post_processing=False, tokenizer=selection)
    if not flags.plain:
        settings = read_postprocessing(flags, names, selection)
    worker = ReplayWorker(settings, engine, flags, files)
    if flags.plain:
        told = "backedge %s, a plain replay worker: frontends post-process"
        logger.info(told, worker.engine_version)
        worker.metrics.engine = worker.engine_name
    else:
        worker.build()
    return worker


def choose_outputs(
    flags: argparse.Namespace, files: Prompts
) -> Callable[[JsonObject], Sequence[int]]:
    """Return the function that finds a request's output. Raises `BackedgeError` for bad files."""
    if flags.recordings is not None:
        return RecordedRequests(files.tokenizer, read_recordings(flags.recordings)).find
    transcripts = read_transcripts(flags.transcripts)
    return RecordedOutputs(Recordings(files, transcripts, by_end=flags.match == "end")).find


def check_runtime(flags: argparse.Namespace) -> None:
    """Raise `SetupError` for a value that Dynamo's runtime does not know."""
    for flag, variable, choices in RUNTIME_CHOICES:
        value = getattr(flags, flag.removeprefix("--").replace("-", "_"))
        if value not in choices:
            raise SetupError(
                f"{flag} {value!r} (or {variable}) must be one of {', '.join(choices)}."
            )


def check_pace(flags: argparse.Namespace) -> None:
    """Raise `SetupError` for an impossible pace."""
    if flags.tokens_per_chunk < 1 or flags.tokens_per_second < 0:
        raise SetupError(
            f"--tokens-per-chunk {flags.tokens_per_chunk} must be 1 or more, "
            f"--tokens-per-second {flags.tokens_per_second:g} must be 0 or more."
        )


def check_plain(flags: argparse.Namespace) -> None:
    """Raise `SetupError` for a plain worker with parsers that it would not use."""
    given = read_parser_names(flags)
    for flag, name in ((TOOL_CALL_FLAG, given.tool_call), (REASONING_FLAG, given.reasoning)):
        if flags.plain and name:
            raise SetupError(
                f"{flag} {name!r}: a worker with --plain does not parse; drop --plain, or give "
                f"the flag to the frontend, or --dyn-{flag[2:]} to this worker."
            )


def load_prompts(flags: argparse.Namespace) -> Prompts:
    """Return what makes the model's prompts. Raises `SetupError` and `TokenizerLoadError`."""
    selection = tokenizer_flags.parse_tokenizer_flags(flags)
    if selection.module and selection.class_name:
        own = load(selection.module, selection.class_name, str(flags.model))
        return PythonPrompts(own, flags.model)
    return ModelPrompts(flags.model)
