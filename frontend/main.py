"""Starts Dynamo's frontend with Backedge's engine factory."""

from __future__ import annotations

import argparse
import functools
import os
import sys
from collections.abc import Sequence
from typing import Any, get_args

import msgspec

from ..parsers.errors import SetupError
from ..parsers.parser_lookup import Kind
from ..tokenization import flags as tokenizer_flags
from ..tokenization.flags import BACKEND_FLAG, TokenizerSelection
from ..tokenization.selection import check_installed, is_installed
from .runtime import gc_control as garbage

CHAT_PROCESSOR = "--dyn-chat-processor"
ENGINE = "--engine-factory"
PARSERS = "--postprocess-parsers"
# Defaults of ours for Dynamo's own variables; what the user sets stays.
ENVIRONMENT = {
    # Dynamo waits this long for the first chunk of a stream before it commits to
    # HTTP 200, so that an error before it is an HTTP error for streams, too.
    "DYN_HTTP_PRE_COMMIT_ERROR_PEEK_MS": "500",
    # vLLM's validation takes a tenth of the time of pydantic's way around it.
    "DYN_VLLM_SKIP_REQUEST_VALIDATION": "0",
}


class Choice(msgspec.Struct, frozen=True):
    """What is asked of this frontend, beside Dynamo's own flags.

    tokenizer: without a back end, each model's workers decide. parsers: None where vLLM's command
    line, which has this flag, is parsed anyway. arguments: what is left for Dynamo.
    user_engine: `package.module:Factory`.
    """

    tokenizer: TokenizerSelection
    parsers: Kind | None
    arguments: list[str]
    user_engine: str | None = None

    @property
    def processor(self) -> str:
        """Dynamo's chat processor on whose command line we ride.

        SGLang's takes just the flags that every edge needs, and nothing of SGLang is
        imported before its factory. vLLM's takes vLLM's flags, which its edge needs.
        """
        return "vllm" if self.parsers is None else "sglang"


def main() -> None:
    """Run `dynamo.frontend` with all its flags and our engine factory.

    Raises SystemExit for flags that contradict each other.
    """
    choice = choose(sys.argv[1:])
    garbage.pause()  # until `engine_factory`
    sys.argv[1:] = [*choice.arguments, CHAT_PROCESSOR, choice.processor]
    from dynamo.frontend import __main__ as dynamo_entry
    from dynamo.frontend import main as dynamo_main

    dynamo_entry._maybe_preload_jemalloc()  # noqa: SLF001 - what DYN_FRONTEND_JEMALLOC asks for
    made = functools.partial(engine_factory, choice=choice)
    dynamo_main.setup_engine_factory = dynamo_main.setup_sglang_engine_factory = made
    dynamo_main.main()


def choose(arguments: Sequence[str]) -> Choice:
    """Return what the arguments ask of us. Raises SystemExit for flags that contradict each other."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument(CHAT_PROCESSOR, dest="processor")
    parser.add_argument(ENGINE, dest="user_engine")
    tokenizer_flags.add_to(parser)
    chosen, rest = parser.parse_known_args(arguments)
    if chosen.processor not in (None, "vllm"):
        raise SystemExit(
            f"{CHAT_PROCESSOR} {chosen.processor!r}: backedge.frontend has forward edges of its own; "
            f"leave the flag out, choose one by {BACKEND_FLAG}, or run python -m dynamo.frontend."
        )
    if chosen.processor is not None and chosen.tokenizer_backend not in (None, "vllm"):
        raise SystemExit(
            f"{CHAT_PROCESSOR} vllm is {BACKEND_FLAG} vllm; leave out one of the two flags."
        )
    chosen.tokenizer_backend = chosen.tokenizer_backend or chosen.processor
    try:
        tokenizer = tokenizer_flags.parse_tokenizer_flags(chosen)
        if tokenizer.backend is not None:
            check_installed(tokenizer.backend)
    except SetupError as error:
        raise SystemExit(str(error)) from error
    backend = tokenizer.backend
    if backend == "vllm" or (backend is None and is_installed("vllm")):
        return Choice(tokenizer, None, rest, chosen.user_engine)
    return Choice(
        tokenizer, *parsers_flag(rest, native=backend in (None, "sglang")), chosen.user_engine
    )


def parsers_flag(arguments: Sequence[str], *, native: bool) -> tuple[Kind, list[str]]:
    """Return which parsers plain workers' streams get, and the other arguments. native: an engine's are there."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument(PARSERS, dest="parsers", choices=get_args(Kind), default="auto")
    chosen, rest = parser.parse_known_args(arguments)
    if chosen.parsers == "native" and not native:
        raise SystemExit(
            f"{PARSERS} native: an engine's parsers come with {BACKEND_FLAG} vllm or sglang."
        )
    return chosen.parsers, rest


def engine_factory(config: Any, flags: argparse.Namespace, *, choice: Choice | None = None) -> Any:
    """Return Backedge's engine factory; stands in for Dynamo's `setup_engine_factory` and SGLang's.

    Dynamo imports its processor and builds its HTTP service after this, and reads
    the variables then.
    """
    garbage.resume()
    set_environment()
    from .factory import EngineFactory, find_user_engine

    if config.preprocess_workers:
        raise SystemExit(
            "--dyn-preprocess-workers has no processes to offer here; leave the flag out."
        )
    try:
        if choice is None:
            return EngineFactory(config, flags, tokenizer_flags.parse_tokenizer_flags(flags))
        if choice.parsers is not None:
            flags.postprocess_parsers = choice.parsers
        user_engine = find_user_engine(choice.user_engine) if choice.user_engine else None
    except SetupError as error:
        raise SystemExit(str(error)) from error
    return EngineFactory(config, flags, choice.tokenizer, user_engine)


def set_environment() -> None:
    """Set our defaults for Dynamo's variables."""
    for variable, value in ENVIRONMENT.items():
        os.environ.setdefault(variable, value)


def watch_engine_factory() -> None:
    """Use Backedge's factory in `dynamo.frontend --dyn-chat-processor vllm --vllm-processing`.

    Entry point `vllm.general_plugins`: vLLM calls it in all its processes, and it
    does something in Dynamo's frontend only.
    """
    dynamo_main: Any = sys.modules.get("dynamo.frontend.main")
    if dynamo_main is None or hasattr(dynamo_main.setup_engine_factory, "__wrapped__"):
        return
    stock = dynamo_main.setup_engine_factory
    if getattr(stock, "func", stock) is engine_factory:
        return  # `main` was first

    @functools.wraps(stock)
    def setup(config: Any, vllm_flags: argparse.Namespace) -> Any:
        chosen = engine_factory if getattr(vllm_flags, "vllm_processing", False) else stock
        return chosen(config, vllm_flags)

    dynamo_main.setup_engine_factory = setup
