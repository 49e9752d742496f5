"""The pool's settings, and the number of processes for a machine."""

from __future__ import annotations

import os

import msgspec

from ...base.json_types import JsonObject
from ...postprocess.settings import PostprocessSettings

CORES_PER_PROCESS = 8
MAX_AUTO_PROCESSES = 4


class PoolSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The pool's settings.

    build: "module:function" that returns the detokenizer and parser factories; the fork server
        calls it with `arguments`.
    """

    processes: int
    build: str
    arguments: JsonObject
    parsers_name: str
    postprocess: PostprocessSettings = PostprocessSettings()


def auto_processes() -> int:
    """Return one process per `CORES_PER_PROCESS` cores, at most `MAX_AUTO_PROCESSES`."""
    return min(MAX_AUTO_PROCESSES, len(os.sched_getaffinity(0)) // CORES_PER_PROCESS)
