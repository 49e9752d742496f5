"""Starts Dynamo's frontend with Backedge's engine factory."""

from __future__ import annotations

import argparse
import functools
import importlib.util
import os
import sys
from collections.abc import Sequence
from typing import Any, Literal

from ..parsers.errors import BackedgeError

CHAT_PROCESSOR = "--dyn-chat-processor"
TOKENIZER = "--tokenizer-backend"
PARSERS = "--postprocess-parsers"
Tokenizer = Literal["vllm", "huggingface"]
# Dynamo's processor on whose command line each edge rides. SGLang's takes just the
# flags that the light one needs, and nothing of SGLang is imported before its factory.
RIDES_ON: dict[Tokenizer, str] = {"vllm": "vllm", "huggingface": "sglang"}
# Defaults of ours for Dynamo's own variables; what the user sets stays.
ENVIRONMENT = {
    # Dynamo waits this long for the first chunk of a stream before it commits to
    # HTTP 200, so that an error before it is an HTTP error for streams, too.
    "DYN_HTTP_PRE_COMMIT_ERROR_PEEK_MS": "500",
    # vLLM's validation takes a tenth of the time of pydantic's way around it.
    "DYN_VLLM_SKIP_REQUEST_VALIDATION": "0",
}


def main() -> None:
    """Run `dynamo.frontend` with all its flags, on the forward edge of the chosen tokenizer.

    Raises SystemExit for a choice that is none.
    """
    tokenizer, arguments = choose(sys.argv[1:])
    sys.argv[1:] = [*arguments, CHAT_PROCESSOR, RIDES_ON[tokenizer]]
    from dynamo.frontend import __main__ as dynamo_entry
    from dynamo.frontend import main as dynamo_main

    dynamo_entry._maybe_preload_jemalloc()  # noqa: SLF001 - what DYN_FRONTEND_JEMALLOC asks for
    if tokenizer == "vllm":
        dynamo_main.setup_engine_factory = engine_factory
    else:
        dynamo_main.setup_sglang_engine_factory = light_factory
    dynamo_main.main()


def choose(arguments: Sequence[str]) -> tuple[Tokenizer, list[str]]:
    """Return whose tokenizer the forward edge uses, and the arguments that are left for Dynamo.

    Raises SystemExit for flags that contradict each other.
    """
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument(CHAT_PROCESSOR, dest="processor")
    parser.add_argument(TOKENIZER, dest="tokenizer", choices=RIDES_ON)
    chosen, rest = parser.parse_known_args(arguments)
    if chosen.processor not in (None, "vllm"):
        raise SystemExit(
            f"{CHAT_PROCESSOR} {chosen.processor!r}: backedge.frontend has forward edges of its own; "
            "leave the flag out, or run python -m dynamo.frontend."
        )
    if chosen.processor == "vllm" and chosen.tokenizer == "huggingface":
        raise SystemExit(f"{CHAT_PROCESSOR} vllm is {TOKENIZER} vllm; leave out one of the two flags.")
    tokenizer = chosen.tokenizer or chosen.processor
    if tokenizer is None:
        tokenizer = "huggingface" if importlib.util.find_spec("vllm") is None else "vllm"
    return tokenizer, rest if tokenizer == "vllm" else linear_only(rest)


def linear_only(arguments: Sequence[str]) -> list[str]:
    """Return the arguments without the one that chooses parsers; without an engine there is no choice."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument(PARSERS, dest="parsers", choices=("auto", "linear", "native"))
    chosen, rest = parser.parse_known_args(arguments)
    if chosen.parsers == "native":
        raise SystemExit(f"{PARSERS} native: an engine's parsers come with {TOKENIZER} vllm.")
    return rest


def engine_factory(config: Any, vllm_flags: argparse.Namespace) -> Any:
    """Return Backedge's engine factory; stands in for Dynamo's `setup_engine_factory`.

    Dynamo imports its processor and builds its HTTP service after this, and reads
    the variables then.
    """
    set_environment()
    from .factory import EngineFactory

    return EngineFactory(config, vllm_flags)


def light_factory(config: Any, flags: argparse.Namespace) -> Any:
    """Return the factory of the light edge; stands in for Dynamo's `setup_sglang_engine_factory`."""
    set_environment()
    from .light import LightFactory

    try:
        return LightFactory(config, flags)
    except BackedgeError as error:
        raise SystemExit(str(error)) from error


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
    if stock is engine_factory:
        return

    @functools.wraps(stock)
    def setup(config: Any, vllm_flags: argparse.Namespace) -> Any:
        chosen = engine_factory if getattr(vllm_flags, "vllm_processing", False) else stock
        return chosen(config, vllm_flags)

    dynamo_main.setup_engine_factory = setup
