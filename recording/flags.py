"""The flags of recording, the same on workers and frontends, and what they ask for."""

from __future__ import annotations

import argparse
from typing import Any

import msgspec

RECORD_FLAG = "--postprocess-record"
CONTENT_FLAG = "--postprocess-record-content"
PROMPTS_FLAG = "--postprocess-record-prompts"
ON_REQUEST_FLAG = "--postprocess-record-on-request"
LIMIT_FLAG = "--postprocess-record-mb"
# Of all files in the folder together.
DEFAULT_MB = 1024
MAX_DIGITS = 9  # of a number on the command line
BYTES_PER_MB = 1 << 20
ON, OFF = "on", "off"


class RecordTarget(msgspec.Struct, frozen=True):
    """Where to record, and which share of the requests, from 0 to 1."""

    folder: str
    sample: float = 1.0


def parse_target(text: str) -> RecordTarget:
    """Parse DIR[:SAMPLE]. Raises ArgumentTypeError for a share that is none.

    What follows the last colon is a share if it is a number; else it belongs to the folder.
    """
    folder, colon, share = text.rpartition(":")
    try:
        sample = float(share) if colon else 1.0
    except ValueError:
        folder, sample = text, 1.0
    else:
        folder = folder if colon else text
    if not 0 <= sample <= 1:
        raise argparse.ArgumentTypeError(f"{text!r}: the share of requests must be from 0 to 1")
    if not folder:
        raise argparse.ArgumentTypeError(f"{text!r} names no folder; write DIR or DIR:SAMPLE")
    return RecordTarget(folder, sample)


def parse_limit(text: str) -> int:
    """Return a size in MiB, at least 1. Raises ArgumentTypeError."""
    if not (text.isascii() and text.isdecimal()) or len(text) > MAX_DIGITS or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r} is not 1 or more MiB")
    return int(text)


# Names and options of argparse's add_argument.
FLAGS: tuple[tuple[tuple[str, ...], dict[str, Any]], ...] = (
    (
        (RECORD_FLAG,),
        {
            "type": parse_target,
            "default": None,
            "metavar": "DIR[:SAMPLE]",
            "help": "Record requests into files in DIR, for `backedge inspect` and `backedge "
            "replay`: all of them, or the share SAMPLE, for example 0.01. Words are replaced "
            f"unless {CONTENT_FLAG} is on.",
        },
    ),
    (
        (CONTENT_FLAG,),
        {
            "choices": (ON, OFF),
            "default": OFF,
            "help": "Record what users and the model have written, too. The default, 'off', "
            "replaces their words and keeps markers, punctuation and declared names.",
        },
    ),
    (
        (PROMPTS_FLAG,),
        {
            "choices": (ON, OFF),
            "default": ON,
            "help": f"With {CONTENT_FLAG} on: record the token ids of prompts. 'off' keeps their "
            "hash and their last tokens only, as recordings without content do.",
        },
    ),
    (
        (ON_REQUEST_FLAG,),
        {
            "choices": (ON, OFF),
            "default": OFF,
            "help": "Also record a request with the header x-dynamo-meta-backedge-record: on, "
            f"whatever the sample; with {RECORD_FLAG} DIR:0, such requests alone.",
        },
    ),
    (
        (LIMIT_FLAG,),
        {
            "type": parse_limit,
            "default": DEFAULT_MB,
            "metavar": "MIB",
            "help": "How much all recordings in DIR may take; the oldest files are deleted. "
            f"Default: {DEFAULT_MB}.",
        },
    ),
)


class RecordSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What the flags ask for.

    sample: share of the requests, from 0 to 1. content: words as well. prompts: token ids of
    prompts, with `content`. on_request: also what a header asks for. limit_bytes: of all files.
    """

    folder: str
    sample: float = 1.0
    content: bool = False
    prompts: bool = True
    on_request: bool = False
    limit_bytes: int = DEFAULT_MB * BYTES_PER_MB


def add_to(parser: argparse.ArgumentParser) -> None:
    """Add the flags to `parser`."""
    for names, options in FLAGS:
        parser.add_argument(*names, **options)


def read_record_settings(arguments: argparse.Namespace) -> RecordSettings | None:
    """Return what parsed flags ask for; None to record nothing, also where there are no flags."""
    target: RecordTarget | None = getattr(arguments, "postprocess_record", None)
    if target is None:
        return None
    return RecordSettings(
        folder=target.folder,
        sample=target.sample,
        content=arguments.postprocess_record_content == ON,
        prompts=arguments.postprocess_record_prompts == ON,
        on_request=arguments.postprocess_record_on_request == ON,
        limit_bytes=arguments.postprocess_record_mb * BYTES_PER_MB,
    )
