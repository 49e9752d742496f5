"""Runs `backedge.frontend` where `dynamo.frontend` is started with one of our switches.

It is loaded in processes that have nothing to do with Backedge, such as all of vLLM's, so it
imports nothing of ours until it is sure.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

CHAT_PROCESSOR_FLAG = "--dyn-chat-processor"
# Flags of workers. Frontends post-process anyway.
PROCESSING: tuple[tuple[str, ...], dict[str, object]] = (
    (
        *("--vllm-processing", "--sglang-processing", "--trtllm-processing"),
        "--native-framework-processing",
    ),
    {
        "action": "store_true",
        "dest": "processing",
        "help": "Accepted, because workers have it: this frontend post-processes anyway.",
    },
)
DYNAMO = ["-m", "dynamo.frontend"]


def replace_dynamo() -> None:
    """Continue as `python -m backedge.frontend` with the same flags, in the same process.

    Entry point `vllm.general_plugins`, and called by the line that `backedge frontend-flags` can
    write: without effect unless the process is `python -m dynamo.frontend` with one of the
    switches, or its variable. Dynamo has started nothing by then.
    """
    arguments = list(sys.orig_argv)
    places = (place for place, _ in enumerate(arguments) if arguments[place : place + 2] == DYNAMO)
    place = next(places, None)
    if place is None or not asks_for_backedge(arguments[place + 2 :]):
        return
    _, flags = split_processor(arguments[place + 2 :])
    ours = [*arguments[:place], "-m", "backedge.frontend", *flags]
    os.execv(sys.executable, ours)  # noqa: S606 - the user's own command line


def asks_for_backedge(flags: Sequence[str]) -> bool:
    """Whether the command line or the environment has one of the switches."""
    from ..base.flags import read_variable

    names, options = PROCESSING
    given = {flag.replace("_", "-") for flag in flags}  # vLLM takes both
    return not given.isdisjoint(names) or bool(read_variable(names, options).get("default"))


def split_processor(flags: Sequence[str]) -> tuple[str | None, list[str]]:
    """Return Dynamo's chat processor, and the flags without it: each model's workers decide."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument(CHAT_PROCESSOR_FLAG, default=os.environ.get("DYN_CHAT_PROCESSOR"))
    parsed, rest = parser.parse_known_args(flags)
    return parsed.dyn_chat_processor, rest
