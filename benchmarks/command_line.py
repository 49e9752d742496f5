"""The flags that all benchmarks have."""

from __future__ import annotations

import argparse


def build_parser(doc: str | None, rounds: int | None = None) -> argparse.ArgumentParser:
    """Return a benchmark's parser. doc: of its module. rounds: the default; None for no flag."""
    parser = argparse.ArgumentParser(description=(doc or "").splitlines()[0], allow_abbrev=False)
    parser.add_argument("--json", action="store_true", help="print one JSON object, no table")
    if rounds is not None:
        parser.add_argument("--rounds", type=int, default=rounds)
    return parser
