"""The cost of a token in the parsers: ours, vLLM's and SGLang's, by the length of the call.

    python -m benchmarks.parsers [--json] [--families hermes glm45] [--sizes 1000 64000]

Measures CPU microseconds per output token of the parser alone, for every linear format
of the registry, for vLLM's streaming parser of that family and, if `sglang` is
installed, for SGLang's detector. The output is one tool call with a long string argument
(program text) in the family's own syntax. It is detokenized beforehand and fed one token
at a time, text and id, as the worker does. Every result is checked: a parser that does
not give the call's name and arguments is marked wrong.

A measurement that takes longer than --limit-s stops: its figure, marked with >, is that
of the tokens so far. Longer calls are then not tried and show the same lower bound,
because these parsers' cost per token only grows.
"""

from __future__ import annotations

import argparse
import gc
import itertools
import json
import logging
import statistics
import sys
import time
from collections.abc import Iterator
from functools import cache
from typing import Any

import msgspec
from backedge.parsers.format import Format
from backedge.parsers.parser_lookup import known_formats
from backedge.tokenization.detokenizer import DetokenizerOptions, detokenizers

from .parser_systems import SYSTEMS, Family, Parser, Stream
from .report import build_parser, show, write_cell
from .samples.sample import NOTE
from .samples.sglang import SGLANG_TOOL_CALLS
from .samples.tokenizers import encode, end_of_turn, load_tokenizer
from .samples.tool_calls import MORE_TOOL_CALLS, TOOL_CALLS

# Names that vLLM does not have.
OTHER_TOOL_CALLS = {**SGLANG_TOOL_CALLS, **MORE_TOOL_CALLS}
SIZES = (100, 1_000, 4_000, 16_000, 64_000)
NS_PER_US = 1e3
NS_PER_S = 1e9
# Short calls are parsed several times in a round, to give the clock enough to measure.
MIN_TOKENS = 4_000
# Tokens between two checks of the time limit.
SLICE = 64
DIFFERS = "wrong"
FUNCTION = "add_note"
LINES = (
    "def step_{n}(rows: dict[str, int]) -> str:\n",
    '    """Return "row {n}": für jede Größe, 数量 ≥ {n}."""\n',
    '    if rows["a{n}"] < {n} and not {{*rows}}:\n',
    "        return f'{{rows}}\\t<b>{n}</b>'  # it's [{n}, ({n})]\n",
    "\n",
)

Piece = tuple[str, list[int]]


class Cell(msgspec.Struct):
    """One figure.

    size: wanted argument tokens. tokens: of the whole output.
    us: per token, the median of `rounds`; a lower bound if `at_least`.
    note: the mistake in the result, or "".
    """

    size: int
    tokens: int = 0
    us: float | None = None
    at_least: bool = False
    rounds: int = 0
    note: str = ""


class Row(msgspec.Struct):
    """One system's parser of one family: the figures, as text, by size, or the error it raised."""

    family: str
    parser: str
    by_size: dict[int, str]
    problem: str = ""


class Skipped(msgspec.Struct):
    """A format of the registry without a row, and the reason."""

    format: str
    reason: str


def program_text(length: int) -> str:
    """Return `length` characters of program text, fewer if they would end in white space."""
    blocks = ("".join(LINES).format(n=number) for number in itertools.count())
    text = ""
    while len(text) < length:
        text += "".join(itertools.islice(blocks, 64))
    return text[:length].rstrip()


def long_output(output: str, text: str) -> str:
    """Return a sample's output with `text` as its string argument, quoted as in the sample."""
    note = str(NOTE["text"])
    spellings = (
        (json.dumps(note, ensure_ascii=False), json.dumps(text, ensure_ascii=False)),
        (repr(note), repr(text)),
        (note, text),
    )
    for short, long in spellings:
        if short in output:
            return output.replace(short, long)
    raise ValueError(f"a sample's output does not have {note!r} in any known quoting: {output!r}")


class LongCall:
    """One family's call with an argument of about `size` tokens."""

    def __init__(self, family: Family, size: int) -> None:
        self._family = family
        self.size = size
        self.text = program_text(int(size * characters_per_token(family)))
        tokenizer = family.tokenizer
        output = encode(tokenizer, long_output(family.sample.output, self.text))
        self._end = end_of_turn(tokenizer, family.sample)
        self._token_ids = [*output, *self._end]

    @property
    def tokens(self) -> int:
        """Tokens of the whole output."""
        return len(self._token_ids)

    def pieces(self, *, shows_special_tokens: bool) -> list[Piece]:
        """Return the tokens as the parser gets them; the end-of-turn token has no text."""
        options = DetokenizerOptions(
            skip_special_tokens=not shows_special_tokens, spaces_between_special_tokens=False
        )
        detokenizer = detokenizers(self._family.tokenizer)(options, self._family.prompt_token_ids)
        pieces = [(detokenizer.feed(token_id), [token_id]) for token_id in self._token_ids]
        if self._end:
            pieces[-1] = ("", pieces[-1][1])
        return pieces

    def is_right(self, names: list[str], arguments: str) -> bool:
        """Whether a parser's names and arguments are those of this call."""
        try:
            return names == [FUNCTION] and json.loads(arguments) == {**NOTE, "text": self.text}
        except ValueError:
            return False


@cache
def _tokens_of_program(tokenizer: Any, length: int) -> int:
    return len(encode(tokenizer, program_text(length)))


def characters_per_token(family: Family, length: int = 8_000) -> float:
    """Return the average length of a token of program text."""
    return length / _tokens_of_program(family.tokenizer, length)


class Outcome(msgspec.Struct):
    """The result of parsing one call.

    tokens: those parsed. whole: False if the time limit came before the last token.
    """

    ns: int = 0
    tokens: int = 0
    whole: bool = False
    names: list[str] = []
    arguments: list[str] = []


def parse(stream: Stream, pieces: list[Piece], limit_ns: float) -> Outcome:
    """Feed `pieces` to `stream`, until the first `SLICE` that ends after `limit_ns` of CPU time."""
    outcome = Outcome()
    *body, last = pieces
    for start in range(0, len(body), SLICE):
        _feed(stream, body[start : start + SLICE], outcome)
        if outcome.ns > limit_ns:
            return outcome
    started = time.process_time_ns()
    result = stream.finish(*last)
    outcome.ns += time.process_time_ns() - started
    outcome.tokens += 1
    _collect(stream, result, outcome)
    outcome.arguments.append(stream.rest())
    outcome.whole = True
    return outcome


def _feed(stream: Stream, pieces: list[Piece], outcome: Outcome) -> None:
    """Feed `pieces`; collecting their results is not timed."""
    feed = stream.feed
    results: list[Any] = []
    keep = results.append
    started = time.process_time_ns()
    for text, token_ids in pieces:
        keep(feed(text, token_ids))
    outcome.ns += time.process_time_ns() - started
    outcome.tokens += len(pieces)
    for result in results:
        _collect(stream, result, outcome)


def _collect(stream: Stream, result: Any, outcome: Outcome) -> None:
    for call in stream.calls(result):
        if call.name:
            outcome.names.append(call.name)
        if call.arguments:
            outcome.arguments.append(call.arguments)


class Trial:
    """The rounds of one cell: as many as fit into the time limit, and at least one."""

    def __init__(self, parser: Parser, call: LongCall, limit_ns: float) -> None:
        self._parser = parser
        self._call = call
        self._pieces = call.pieces(shows_special_tokens=parser.shows_special_tokens)
        self._limit_ns = limit_ns
        self._us: list[float] = []
        self._spent_ns = 0
        self._longest_ns = 0
        self.cell = Cell(call.size, call.tokens)

    def run_round(self) -> None:
        """Parse the call; a short call several times."""
        if self._spent_ns + self._longest_ns > self._limit_ns:
            return
        gc.collect()
        gc.disable()
        try:
            ns, tokens = self._parse()
        finally:
            gc.enable()
        self._spent_ns += ns
        self._longest_ns = max(self._longest_ns, ns)
        self._us.append(ns / NS_PER_US / tokens)
        self.cell.us = statistics.median(self._us)
        self.cell.rounds = len(self._us)

    def _parse(self) -> tuple[int, int]:
        """Return the CPU time in ns, and the number of tokens parsed in it."""
        ns = tokens = 0
        while tokens < max(MIN_TOKENS, len(self._pieces)) and ns <= self._limit_ns:
            outcome = parse(self._parser.stream(), self._pieces, self._limit_ns)
            ns, tokens = ns + outcome.ns, tokens + outcome.tokens
            if not outcome.whole:
                self.cell.at_least = True
                break
            if not self._call.is_right(outcome.names, "".join(outcome.arguments)):
                self.cell.note = DIFFERS
        return ns, tokens


def measure(parser: Parser, calls: list[LongCall], rounds: int, limit_s: float) -> list[Cell]:
    """Return the figures of `calls`, shortest first; the sizes take turns within a round."""
    cells: list[Cell] = []
    trials: list[Trial] = []
    for call in calls:
        if cells and cells[-1].at_least:
            cells.append(Cell(call.size, call.tokens, cells[-1].us, at_least=True))
            continue
        trial = Trial(parser, call, limit_s * NS_PER_S)
        trial.run_round()
        trials.append(trial)
        cells.append(trial.cell)
    for _ in range(rounds - 1):
        for trial in trials:
            trial.run_round()
    return cells


def load_family(name: str, format_names: tuple[str, ...]) -> Family:
    """Return the family of the sample `name`."""
    sample = TOOL_CALLS.get(name) or OTHER_TOOL_CALLS[name]
    tokenizer = load_tokenizer(sample)
    return Family(name, format_names, sample, tokenizer, encode(tokenizer, sample.prompt))


def families() -> tuple[list[Family], list[Skipped]]:
    """Return every syntax that a format of the registry reads, and the formats without one."""
    found: list[Family] = []
    skipped = []
    for format_ in formats():
        format_names = (format_.name, *format_.aliases)
        # Parsers of the same syntax have samples of the same text: measure it once, under the
        # format's own name.
        syntaxes: dict[str, str] = {}
        for samples in (TOOL_CALLS, OTHER_TOOL_CALLS):
            if syntaxes or not format_.parses_tools:
                break
            for name in (key for name in format_names for key in samples if key.split()[0] == name):
                syntaxes.setdefault(samples[name].output, name)
        found += [load_family(name, format_names) for name in syntaxes.values()]
        if not syntaxes:
            reason = "no sample" if format_.parses_tools else "no tool calls"
            skipped.append(Skipped(format_.name, reason))
    return found, skipped


def formats() -> list[Format]:
    """Return the registry's formats, each once."""
    entries = known_formats().values()
    found = (
        format_
        for entry in entries
        for format_ in (entry.tools, entry.reasoning)
        if format_ is not None
    )
    return list({id(format_): format_ for format_ in found}.values())


def measure_families(chosen: list[Family], arguments: argparse.Namespace) -> Iterator[Row]:
    """Yield a row for each family and system, the systems one after another."""
    for number, family in enumerate(chosen, start=1):
        print(f"{number} of {len(chosen)}: {family.name}", file=sys.stderr)
        calls = [LongCall(family, size) for size in arguments.sizes]
        for name in arguments.systems:
            row = Row(family.name, name, {})
            try:
                parser = SYSTEMS[name](family)
                cells = measure(parser, calls, arguments.rounds, arguments.limit_s)
                row.by_size = {cell.size: cell_text(cell) for cell in cells}
            except Exception as error:  # noqa: BLE001 - engines' parsers raise anything
                row.by_size = dict.fromkeys(arguments.sizes, "-")
                row.problem = f"{type(error).__name__}: {error}".splitlines()[0]
            yield row


def cell_text(cell: Cell) -> str:
    """Return a figure with about three digits, after its note."""
    return f"{cell.note} {'>' if cell.at_least else ''}{write_cell(cell.us)}".strip()


def parse_arguments(known: list[str]) -> argparse.Namespace:
    """Return the command line. known: the families' names."""
    parser = build_parser(__doc__, 5)
    parser.add_argument(
        "--families", nargs="+", choices=known, default=known, metavar="NAME", help=", ".join(known)
    )
    parser.add_argument("--systems", nargs="+", choices=SYSTEMS, default=list(SYSTEMS))
    parser.add_argument("--sizes", nargs="+", type=int, default=list(SIZES), help="tokens, about")
    parser.add_argument(
        "--limit-s", type=float, default=10.0, help="CPU seconds of all rounds of a figure"
    )
    arguments = parser.parse_args()
    arguments.sizes.sort()
    return arguments


def main() -> None:
    """Run the benchmark and print its report."""
    logging.disable()  # some parsers log a traceback per token
    known, skipped = families()
    arguments = parse_arguments([family.name for family in known])
    gc.freeze()
    chosen = [family for family in known if family.name in arguments.families]
    rows = list(measure_families(chosen, arguments))
    show({"us per token, by argument tokens": rows, "skipped": skipped}, as_json=arguments.json)


if __name__ == "__main__":
    main()
