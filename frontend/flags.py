"""The flags of `python -m backedge.frontend`; those of dynamo.frontend follow."""

from __future__ import annotations

import argparse
import functools
import sys
from collections.abc import Sequence
from typing import Literal, get_args

import msgspec

from ..base.errors import MALFORMED_FLAG, exiting
from ..base.flags import FlagParser, add_to, check_misspelt, check_variables, flag, parse_amount
from ..base.limits import PROMPT_CACHE_MB
from ..parsers.parser_lookup import Kind
from ..postprocess.settings import STREAM_CALLS_FLAG, StreamCalls, check_stream_calls
from ..recording import flags as record_flags
from ..tokenization import tokenizer_selection as tokenizer_flags
from ..tokenization.tokenizer_selection import BACKEND_FLAG, Backend, is_installed
from .handover import CHAT_PROCESSOR_FLAG, PROCESSING
from .turns import flags as turn_flags

ENGINES: tuple[Backend, ...] = ("vllm", "sglang")
ENGINE_FACTORY_FLAG = "--engine-factory"
PARSERS_FLAG = "--postprocess-parsers"
PROMPT_CACHE_FLAG = "--prompt-cache-mb"
HELP_FLAGS = {"-h", "--help"}
PlainMalformedCalls = Literal["open", "regenerate"]
"""What becomes of plain workers' malformed calls; other workers have a flag of their own."""
# Not ours, but users of ours misspell them.
PARSER_FLAGS = (
    *("--tool-call-parser", "--reasoning-parser"),
    *("--dyn-tool-call-parser", "--dyn-reasoning-parser"),
)


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
        type=functools.partial(parse_amount, unit="MB", least=0),
        default=PROMPT_CACHE_MB,
        dest="cache_mb",
        metavar="MB",
        help=f"Memory of the prompt cache of all models; 0 for none. Default: {PROMPT_CACHE_MB}.",
    ),
    flag(
        MALFORMED_FLAG,
        dest="malformed_calls",
        choices=get_args(PlainMalformedCalls),
        default="open",
        help="Malformed calls of plain workers: 'regenerate' has the model write them again.",
    ),
    flag(
        STREAM_CALLS_FLAG,
        choices=get_args(StreamCalls),
        dest="stream_calls",
        help=f"With {MALFORMED_FLAG} regenerate: 'whole' (the default there) sends a call once it "
        "is right, 'arguments' sends JSON arguments while they are written.",
    ),
    PROCESSING,
)


class FrontendFlags(msgspec.Struct, frozen=True):
    """The flags of `python -m backedge.frontend`.

    tokenizer: without a back end, each model's workers decide.
    parsers: None if vLLM's command line, which has this flag, is parsed as well.
    other_arguments: those passed to Dynamo.
    user_engine: `package.module:Factory`.
    allowed_modules: of tokenizers that workers may name.
    prompt_cache_mb: size of the prompt cache; 0 for no cache.
    record: None to record nothing. turns: None to keep no answers.
    malformed_calls: what becomes of those of plain workers. stream_calls: how these leave.
    """

    tokenizer: tokenizer_flags.TokenizerSelection
    parsers: Kind | None
    other_arguments: list[str]
    user_engine: str | None = None
    allowed_modules: tuple[str, ...] = ()
    prompt_cache_mb: int = PROMPT_CACHE_MB
    record: record_flags.RecordSettings | None = None
    turns: turn_flags.TurnSettings | None = None
    malformed_calls: PlainMalformedCalls = "open"
    stream_calls: StreamCalls | None = None

    @property
    def chat_processor(self) -> str:
        """Dynamo's chat processor whose command line is used.

        SGLang's takes only the flags that every back end needs, and imports nothing of SGLang
        before its factory is called. vLLM's takes vLLM's flags, which its back end needs.
        """
        return "vllm" if self.parsers is None else "sglang"


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
        check_misspelt(rest, [*known, *PARSER_FLAGS])
        turns = turn_flags.read_turn_settings(parsed)
        check_stream_calls(parsed.malformed_calls, parsed.stream_calls)
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
        record_flags.read_record_settings(parsed),
        turns,
        parsed.malformed_calls,
        parsed.stream_calls,
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
