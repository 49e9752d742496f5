"""How many of the cases each system reads as their goldens say: ours, vLLM's and SGLang's parsers.

`python -m tests.conformance.peers` prints a table by family, `--json` the same as one object. All
get the same tokens, one by one, as a worker feeds them.
"""

from __future__ import annotations

import argparse
import functools
import json
import logging
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from types import SimpleNamespace
from typing import Any

from backedge.base.errors import SetupError
from backedge.engines.sglang.parsers import SglangParsers
from backedge.engines.vllm.parsers import VllmParsers
from backedge.parsers.base import ParserFactory, ParserNames
from backedge.parsers.events import join
from backedge.parsers.format import Format
from backedge.parsers.parser_lookup import reasoning_format, tool_format
from sglang.srt.function_call.function_call_parser import FunctionCallParser
from sglang.srt.parser.reasoning_parser import ReasoningParser
from vllm.reasoning import ReasoningParserManager
from vllm.tool_parsers import ToolParserManager

from benchmarks.parser_systems import find_engine_name
from benchmarks.samples.tokenizers import bpe, encode, harmony
from tests.conformance.cases import FOLDER, Case, Event, load_cases
from tests.conformance.runner import (
    build_request,
    build_vocabulary,
    differs,
    read_events,
    read_prompt,
    without_outer_space,
)
from tests.parsers.families import FAMILIES
from tests.parsers.families.family import TURN
from tests.parsers.sample_model import cached_linear_parsers, feed_tokens

NO_PARSER = "-"


@dataclass
class Count:
    """How many of a family's cases a system reads exactly. but_space: but for outer white space."""

    exact: int = 0
    but_space: int = 0
    total: int = 0

    def __str__(self) -> str:
        """Return the first count, and the second one if it differs."""
        more = f" ({self.but_space})" if self.but_space != self.exact else ""
        return f"{self.exact}{more}"


def load_tokenizer(names: ParserNames) -> Any:
    """Return a tokenizer that has the family's markers as tokens."""
    if names.tool_call == "openai":
        return harmony()
    special = {
        marker
        for format_ in (tool_format(names.tool_call or ""), reasoning_format(names.reasoning or ""))
        if format_ is not None
        for marker in FAMILIES[format_.name].special
    }
    vocabulary = build_vocabulary(names)
    markers = tuple(marker for marker in vocabulary if marker not in special)
    return bpe(markers, tuple(marker for marker in vocabulary if marker in special))


def find_name(format_: Format | None, own: str | None, known: Iterable[str]) -> str | None:
    """Return an engine's name for a format; ours if it has that, too."""
    if format_ is None:
        return None
    return find_engine_name((own or "", format_.name, *format_.aliases), known)


def find_names(names: ParserNames, tools: Iterable[str], reasoning: Iterable[str]) -> ParserNames:
    """Return an engine's names; without a parser of the tool calls there is nothing to compare.

    Raises LookupError if a parser is missing.
    """
    found = ParserNames(
        find_name(tool_format(names.tool_call or ""), names.tool_call, tools),
        find_name(reasoning_format(names.reasoning or ""), names.reasoning, reasoning),
    )
    if found.tool_call is None or (names.reasoning and found.reasoning is None):
        raise LookupError(names.label)
    return found


@functools.cache
def build_ours(names: ParserNames) -> ParserFactory:
    return cached_linear_parsers(names, load_tokenizer(names))


@functools.cache
def build_vllm(names: ParserNames) -> ParserFactory:
    known = find_names(
        names, ToolParserManager.list_registered(), ReasoningParserManager.list_registered()
    )
    model_type = "gpt_oss" if names.tool_call == "openai" else "other"
    model_config = SimpleNamespace(hf_config=SimpleNamespace(model_type=model_type))
    return VllmParsers(load_tokenizer(names), known, model_config)


@functools.cache
def build_sglang(names: ParserNames) -> ParserFactory:
    known = find_names(names, FunctionCallParser.ToolCallParserEnum, ReasoningParser.DetectorMap)
    return SglangParsers(load_tokenizer(names), known)


SYSTEMS: dict[str, Callable[[ParserNames], ParserFactory]] = {
    "ours": build_ours,
    "vllm": build_vllm,
    "sglang": build_sglang,
}


def read(case: Case, parsers: ParserFactory) -> list[Event]:
    """Return what a client gets of the case's tokens, fed one by one."""
    tokenizer = load_tokenizer(case.names)
    parser = parsers(build_request(case), encode(tokenizer, TURN + read_prompt(case)))
    shows = parsers.shows_special_tokens(build_request(case))
    events = feed_tokens(parser, tokenizer, case.output, skip_special_tokens=not shows)
    return read_events(join(events + parser.finish(cut=case.finish == "length")))


def count(cases: Sequence[Case], parsers: ParserFactory) -> Count:
    """Return how many of the cases are read as their goldens say."""
    counted = Count(total=len(cases))
    for case in cases:
        try:
            events = read(case, parsers)
        except Exception as error:  # noqa: BLE001 - a peer's parser may raise anything
            logging.getLogger(__name__).debug("%s: %r", case.id, error)
            continue
        counted.exact += not differs(events, case.golden)
        counted.but_space += not differs(
            without_outer_space(events), without_outer_space(case.golden)
        )
    return counted


def compare() -> dict[str, dict[str, Count]]:
    """Return by family and system how many of the native cases are read; systems with a parser."""
    cases = [case for case in load_cases() if case.mode == "Native"]
    counts: dict[str, dict[str, Count]] = {}
    for family in sorted({case.family for case in cases}):
        of_family = [case for case in cases if case.family == family]
        counts[family] = {}
        for system, build in SYSTEMS.items():
            try:
                parsers = build(of_family[0].names)
            except (LookupError, SetupError):
                continue
            counts[family][system] = count(of_family, parsers)
    return counts


def table(counts: dict[str, dict[str, Count]]) -> str:
    """Return the counts as a table: exact, and but for outer white space."""
    rows = [
        f"| {family} | {max(c.total for c in by_system.values())} | "
        + " | ".join(
            str(by_system[system]) if system in by_system else NO_PARSER for system in SYSTEMS
        )
        + " |"
        for family, by_system in counts.items()
    ]
    heads = f"| family | native cases | {' | '.join(SYSTEMS)} |"
    return "\n".join([heads, "|---|---|" + "---|" * len(SYSTEMS), *rows])


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    arguments = parser.parse_args()
    if not load_cases():
        parser.error(f"there are no cases in {FOLDER}; CONFORMANCE_DATA names another folder.")
    logging.disable(logging.ERROR)
    counts = compare()
    if arguments.json:
        json.dump(
            {f: {s: asdict(c) for s, c in by.items()} for f, by in counts.items()}, sys.stdout
        )
    else:
        sys.stdout.write(table(counts) + "\n")


if __name__ == "__main__":
    main()
