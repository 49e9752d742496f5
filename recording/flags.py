"""The command-line flags of recording, the same for workers and frontends."""

from __future__ import annotations

import argparse
from typing import Any

import msgspec

from ..base.limits import RECORDINGS_MB

RECORD_FLAG = "--postprocess-record"
CONTENT_FLAG = "--postprocess-record-content"
PROMPTS_FLAG = "--postprocess-record-prompts"
ON_REQUEST_FLAG = "--postprocess-record-on-request"
LIMIT_FLAG = "--postprocess-record-mb"
MAX_DIGITS = 9  # limit for a number on the command line
BYTES_PER_MB = 1 << 20
ON, OFF = "on", "off"


class RecordTarget(msgspec.Struct, frozen=True):
    """A folder, and the share of the requests to record there, from 0 to 1."""

    folder: str
    sample: float = 1.0


def parse_target(text: str) -> RecordTarget:
    """Parse DIR[:SAMPLE]. Raises ArgumentTypeError for a share that is not from 0 to 1.

    What follows the last colon is the share if it is a number; otherwise it is part of DIR.
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
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of MiB from 1")
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
            "replay`: all requests, or the share SAMPLE, for example 0.01. Words are replaced "
            f"unless {CONTENT_FLAG} is on.",
        },
    ),
    (
        (CONTENT_FLAG,),
        {
            "choices": (ON, OFF),
            "default": OFF,
            "help": "Record the words of users and the model as well. The default, 'off', "
            "replaces them and keeps markers, punctuation and declared names.",
        },
    ),
    (
        (PROMPTS_FLAG,),
        {
            "choices": (ON, OFF),
            "default": ON,
            "help": f"With {CONTENT_FLAG} on: record the token ids of prompts. 'off' records only "
            "their hash and last tokens, as recordings without content do.",
        },
    ),
    (
        (ON_REQUEST_FLAG,),
        {
            "choices": (ON, OFF),
            "default": OFF,
            "help": "Also record a request with the header x-dynamo-meta-backedge-record: on, "
            f"whatever the sample; with {RECORD_FLAG} DIR:0, record only these.",
        },
    ),
    (
        (LIMIT_FLAG,),
        {
            "type": parse_limit,
            "default": RECORDINGS_MB,
            "metavar": "MIB",
            "help": "How much all recordings in DIR may take; the oldest files are deleted. "
            f"Default: {RECORDINGS_MB}.",
        },
    ),
)


class RecordSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The values of the flags.

    sample: share of the requests, from 0 to 1. content: record words. prompts: record the
    prompts' token ids, if `content`. on_request: also record requests that ask for it in a
    header. limit_bytes: for all files together.
    """

    folder: str
    sample: float = 1.0
    content: bool = False
    prompts: bool = True
    on_request: bool = False
    limit_bytes: int = RECORDINGS_MB * BYTES_PER_MB


def add_to(parser: argparse.ArgumentParser) -> None:
    """Add the flags to `parser`."""
    for names, options in FLAGS:
        parser.add_argument(*names, **options)


def read_record_settings(arguments: argparse.Namespace) -> RecordSettings | None:
    """Return the settings in parsed flags; None if recording is off or the flags do not exist."""
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
