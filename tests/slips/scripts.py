"""What a model writes that slips at first, and then what it meant.

The scripts are in the file that `VARIABLE` names; a request's seed is the number of its script.
"""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TypedDict

VARIABLE = "SLIPPING_SCRIPTS"
FIRST_SEED = 70_000
PREFERRED = 1e4  # added to a logit: more than all others, and still nothing to a forbidden one


class Script(TypedDict):
    """Tokens: of the first attempt, and of another one after so many complete calls.

    done: how many calls are complete after each token of the first. rest: what is then left of the
        call that has begun, and of those after it; empty outside of calls and after a slip.
    """

    first: list[int]
    done: list[int]
    rest: list[list[int]]
    again: list[list[int]]


@functools.cache
def load_scripts() -> list[Script]:
    """Return all scripts."""
    scripts: list[Script] = json.loads(Path(os.environ[VARIABLE]).read_text(encoding="utf-8"))
    return scripts


def find_script(seed: int | None) -> Script | None:
    """Return the script of a request with this seed; None: it writes what it likes."""
    number = -1 if seed is None else seed - FIRST_SEED
    return load_scripts()[number] if 0 <= number < len(load_scripts()) else None


def find_preferred(script: Script, prompt: Sequence[int], output: Sequence[int]) -> int:
    """Return the token that the model prefers at another attempt, after what it has written.

    prompt: it ends with what stays of the first attempt.
    """
    meant = find_meant(script, prompt)
    place = 0
    for token_id in output:
        place += place < len(meant) - 1 and token_id == meant[place]
    return meant[place]


def find_meant(script: Script, prompt: Sequence[int]) -> list[int]:
    """Return what is to come after `prompt`, which may end within a call."""
    first = script["first"]
    sizes = range(min(len(first), len(prompt)), 0, -1)
    kept = next((size for size in sizes if list(prompt[-size:]) == first[:size]), 0)
    done = script["done"][kept - 1] if kept else 0
    rest = script["rest"][kept - 1] if kept else []
    return rest or script["again"][min(done, len(script["again"]) - 1)]
