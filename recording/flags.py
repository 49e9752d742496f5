"""The command-line flags of recording, the same for workers and frontends."""

from __future__ import annotations

import argparse
import functools

import msgspec

from ..base.flags import OFF, ON, Flag, flag, parse_megabytes
from ..base.limits import RECORDINGS_MB

RECORD_FLAG = "--postprocess-record"
CONTENT_FLAG = "--postprocess-record-content"
PROMPTS_FLAG = "--postprocess-record-prompts"
ON_REQUEST_FLAG = "--postprocess-record-on-request"
LIMIT_FLAG = "--postprocess-record-mb"
BYTES_PER_MB = 1 << 20


def parse_target(text: str) -> tuple[str, float]:
    """Parse DIR[:SAMPLE]: a folder, and the share of the requests to record there, from 0 to 1.

    What follows the last colon is the share if it is a number; otherwise it is part of DIR.
    Raises ArgumentTypeError.
    """
    folder, colon, share = text.rpartition(":")
    try:
        sample = float(share if colon else "")
    except ValueError:
        folder, sample = text, 1.0
    if not 0 <= sample <= 1:
        raise argparse.ArgumentTypeError(f"{text!r}: the share of requests must be from 0 to 1")
    if not folder:
        raise argparse.ArgumentTypeError(f"{text!r} names no folder; write DIR or DIR:SAMPLE")
    return folder, sample


FLAGS: tuple[Flag, ...] = (
    flag(
        RECORD_FLAG,
        type=parse_target,
        metavar="DIR[:SAMPLE]",
        help="Record requests into files in DIR, for `backedge inspect` and `backedge "
        "replay`: all requests, or the share SAMPLE, for example 0.01. Words are replaced "
        f"unless {CONTENT_FLAG} is on.",
    ),
    flag(
        CONTENT_FLAG,
        choices=(ON, OFF),
        default=OFF,
        help="Record the words of users and the model as well. The default, 'off', "
        "replaces them and keeps markers, punctuation and declared names.",
    ),
    flag(
        PROMPTS_FLAG,
        choices=(ON, OFF),
        default=ON,
        help=f"With {CONTENT_FLAG} on: record the token ids of prompts. 'off' records only "
        "their hash and last tokens, as recordings without content do.",
    ),
    flag(
        ON_REQUEST_FLAG,
        choices=(ON, OFF),
        default=OFF,
        help="Also record a request with the header x-dynamo-meta-backedge-record: on, "
        f"whatever the sample; with {RECORD_FLAG} DIR:0, record only these.",
    ),
    flag(
        LIMIT_FLAG,
        type=functools.partial(parse_megabytes, least=1),
        default=RECORDINGS_MB,
        metavar="MIB",
        help="How much all recordings in DIR may take; the oldest files are deleted. "
        f"Default: {RECORDINGS_MB}.",
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


def read_record_settings(arguments: argparse.Namespace) -> RecordSettings | None:
    """Return the settings in parsed flags; None if recording is off or the flags do not exist."""
    target: tuple[str, float] | None = getattr(arguments, "postprocess_record", None)
    if target is None:
        return None
    folder, sample = target
    return RecordSettings(
        folder=folder,
        sample=sample,
        content=arguments.postprocess_record_content == ON,
        prompts=arguments.postprocess_record_prompts == ON,
        on_request=arguments.postprocess_record_on_request == ON,
        limit_bytes=arguments.postprocess_record_mb * BYTES_PER_MB,
    )
