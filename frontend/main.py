"""Starts Dynamo's frontend with Backedge's engine factory."""

from __future__ import annotations

import argparse
import functools
import os
import sys
from typing import Any

CHAT_PROCESSOR = "--dyn-chat-processor"
# Defaults of ours for Dynamo's own variables; what the user sets stays.
ENVIRONMENT = {
    # Dynamo waits this long for the first chunk of a stream before it commits to
    # HTTP 200, so that an error before it is an HTTP error for streams, too.
    "DYN_HTTP_PRE_COMMIT_ERROR_PEEK_MS": "500",
    # vLLM's validation takes a tenth of the time of pydantic's way around it.
    "DYN_VLLM_SKIP_REQUEST_VALIDATION": "0",
}


def main() -> None:
    """Run `dynamo.frontend` with all its flags, on the engines' forward edge.

    Raises SystemExit for a chat processor that has no forward edge here.
    """
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument(CHAT_PROCESSOR)
    chosen = parser.parse_known_args()[0].dyn_chat_processor
    if chosen is None:
        sys.argv += [CHAT_PROCESSOR, "vllm"]
    elif chosen != "vllm":
        raise SystemExit(
            f"{CHAT_PROCESSOR} {chosen!r}: backedge.frontend uses vLLM's forward edge; "
            "leave the flag out, or run python -m dynamo.frontend."
        )
    from dynamo.frontend import __main__ as dynamo_entry
    from dynamo.frontend import main as dynamo_main

    dynamo_entry._maybe_preload_jemalloc()  # noqa: SLF001 - what DYN_FRONTEND_JEMALLOC asks for
    dynamo_main.setup_engine_factory = engine_factory
    dynamo_main.main()


def engine_factory(config: Any, vllm_flags: argparse.Namespace) -> Any:
    """Return Backedge's engine factory; stands in for Dynamo's `setup_engine_factory`.

    Dynamo imports its processor and builds its HTTP service after this, and reads
    the variables then.
    """
    for variable, value in ENVIRONMENT.items():
        os.environ.setdefault(variable, value)
    from .factory import EngineFactory

    return EngineFactory(config, vllm_flags)


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
