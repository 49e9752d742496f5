"""Claim: usual stop strings cost at most a microsecond per token, at any length of the text.

    python -m benchmarks.stops [--json] [--sizes 1000 16000] [--rounds 5]

Measures CPU microseconds per token of our `StopStringFilter`, which also decides how much
text may be streamed, and of vLLM's `check_stop_strings`, which only searches. The text
has 3 to 5 characters per token, is full of beginnings of the stop strings and completes
none of them. Then each list's last stop string follows, and both systems have to find it
at the same place; otherwise the row is marked wrong.
"""

from __future__ import annotations

import argparse
import gc
import itertools
import random
import statistics
import time
from collections.abc import Callable, Iterator

import msgspec
from backedge.postprocess.stop_matcher import StopStringFilter
from vllm.v1.engine.detokenizer import check_stop_strings

SIZES = (1_000, 16_000)
CLAIM_US = 1.0
CLAIM_GROWTH = 1.3
NS_PER_US = 1e3
# Short texts are read several times in a round, to give the clock enough to measure.
MIN_TOKENS = 4_000
# Of the table's columns: stop strings, system, one per size.
NAME_WIDTH, SYSTEM_WIDTH, CELL_WIDTH = 50, 8, 12
OURS, VLLM = "ours", "vllm"
PROSE = (
    "The user asked for an observation, and this is what there is to see: a long answer, "
    "in which every word ends the one before it.\nIt has lines, and the lines have an end; "
    "none of them is the end. Humans read it, assistants wrote it, "
    "and # or ## stands for a heading.\n"
)
LETTERS = "abcdefghijklmnopqrstuvwxyz "

Found = tuple[str, str] | None
"""The stop string, and the text before it."""
Read = Callable[[list[str], list[str]], Found]


class Case(msgspec.Struct):
    """A list of stop strings, and the text that is repeated and cut into tokens."""

    name: str
    stops: list[str]
    text: str
    usual: bool = False


class Row(msgspec.Struct):
    """One system with one list of stop strings.

    us: per token, by the text's length in tokens; medians of the rounds.
    """

    name: str
    system: str
    us: dict[int, float]
    usual: bool
    wrong: bool


class Report(msgspec.Struct):
    """A whole run.

    worst_us: the highest cost of ours with a usual list. growth: of our cost per token,
    from the shortest text to the longest.
    """

    rounds: int
    rows: list[Row]
    worst_us: float
    cost_held: bool
    growth: float
    growth_held: bool


def cases() -> list[Case]:
    """Return the lists, the usual lists first."""
    letters = random.Random(0)
    absent = ["".join(letters.choices(LETTERS, k=20)) for _ in range(1000)]
    similar = [f"{(PROSE * 5)[start : start + 10]}{start:010}" for start in range(1000)]
    return [
        Case("1: END", ["END"], PROSE, usual=True),
        Case("2: an empty line, User:", ["\n\n", "User:"], PROSE, usual=True),
        Case(
            "4: ###, </s>, and lines",
            ["###", "</s>", "\nUser:", "\nObservation:"],
            PROSE,
            usual=True,
        ),
        Case("4 that every third token begins", [" User:", " Human:", "the End", " An"], PROSE),
        Case("1,000 of 20 characters", absent, PROSE),
        Case("1,000 of 20 characters, 10 of them in the text", similar, PROSE),
        Case("1 of 10,000 characters, all but the last in it", ["a" * 9_999 + "b"], "a"),
        Case(
            "1,000 of 1,000 characters, 996 in it",
            ["a" * 996 + f"{n:04}" for n in range(1000)],
            "a",
        ),
    ]


def tokens(text: str, size: int) -> list[str]:
    """Return `size` tokens of 3 to 5 characters, cut from repetitions of `text`."""
    characters = itertools.cycle(text)
    lengths = itertools.islice(itertools.cycle((3, 5, 4, 4)), size)
    return ["".join(itertools.islice(characters, length)) for length in lengths]


def read_ours(stops: list[str], pieces: list[str]) -> Found:
    """Feed a `StopStringFilter`."""
    stop_filter = StopStringFilter(stops, include=False, splits=True)
    passed = []
    for token_id, piece in enumerate(pieces):
        passed += stop_filter.feed(piece, token_id)
    if stop_filter.matched is None:
        return None
    return stop_filter.matched, "".join(text for text, _ in passed)


def read_vllm(stops: list[str], pieces: list[str]) -> Found:
    """Search as vLLM's detokenizer does for each token."""
    # vLLM's text is an attribute, so adding to it copies it; adding to a variable does not.
    text = ""
    for piece in pieces:
        text += piece
        found = check_stop_strings(text, len(piece), stops, False)
        if found is not None:
            return found[0], text[: found[1]]
    return None


SYSTEMS: dict[str, Read] = {OURS: read_ours, VLLM: read_vllm}


def us_per_token(read: Read, case: Case, pieces: list[str]) -> float:
    """Return the time of one round."""
    times = max(1, MIN_TOKENS // len(pieces))
    gc.collect()
    gc.disable()
    try:
        started = time.process_time_ns()
        for _ in range(times):
            read(case.stops, pieces)
        ns = time.process_time_ns() - started
    finally:
        gc.enable()
    return ns / NS_PER_US / times / len(pieces)


def is_right(read: Read, case: Case, pieces: list[str]) -> bool:
    """Whether the text holds no stop string, and the list's last one is found after it."""
    stop = case.stops[-1]
    # After a character that is in no list, so that no other stop string can be complete.
    found = read(case.stops, [*pieces, "~", *stop, "more"])
    return read(case.stops, pieces) is None and found == (stop, "".join(pieces) + "~")


def measure(case: Case, sizes: list[int], rounds: int) -> Iterator[Row]:
    """Yield the systems' figures; the systems take turns within a round."""
    rows = {name: Row(case.name, name, {}, case.usual, wrong=False) for name in SYSTEMS}
    for size in sizes:
        pieces = tokens(case.text, size)
        us: dict[str, list[float]] = {name: [] for name in SYSTEMS}
        for _ in range(rounds):
            for name, read in SYSTEMS.items():
                us[name].append(us_per_token(read, case, pieces))
        for name, row in rows.items():
            row.us[size] = statistics.median(us[name])
            row.wrong |= not is_right(SYSTEMS[name], case, pieces)
    yield from rows.values()


def build_report(rows: list[Row], rounds: int) -> Report:
    """Return the report, with whether the claims held."""
    ours = [row for row in rows if row.system == OURS]
    right = not any(row.wrong for row in ours)
    worst = max(us for row in ours if row.usual for us in row.us.values())
    growth = max(row.us[max(row.us)] / row.us[min(row.us)] for row in ours)
    return Report(
        rounds, rows, worst, right and worst <= CLAIM_US, growth, right and growth <= CLAIM_GROWTH
    )


def table(report: Report) -> str:
    """Return the report as text."""
    sizes = "".join(f"{size:>{CELL_WIDTH}}" for size in report.rows[0].us)
    lines = [f"CPU microseconds per token by tokens of text, medians of {report.rounds} rounds"]
    lines.append(f"{'stop strings':{NAME_WIDTH}}{'system':{SYSTEM_WIDTH}}{sizes}")
    for row in report.rows:
        cells = "".join(f"{us:>{CELL_WIDTH}.2f}" for us in row.us.values())
        wrong = "  wrong" if row.wrong else ""
        lines.append(f"{row.name:{NAME_WIDTH}}{row.system:{SYSTEM_WIDTH}}{cells}{wrong}")
    held = {True: "held", False: "NOT held"}
    lines.append(
        f"claim: at most {CLAIM_US:g} us per token with up to 4 usual stop strings: "
        f"{held[report.cost_held]} in this run (at most {report.worst_us:.2f} us)"
    )
    lines.append(
        f"claim: a token of the longest text costs at most {CLAIM_GROWTH:g} times a token of the "
        f"shortest, with any stop strings: {held[report.growth_held]} in this run "
        f"(at most {report.growth:.2f} times)"
    )
    return "\n".join(lines)


def parse_arguments() -> argparse.Namespace:
    """Return the command line."""
    parser = argparse.ArgumentParser(
        description=(__doc__ or "").splitlines()[0], allow_abbrev=False
    )
    parser.add_argument(
        "--json", action="store_true", help="print one JSON object instead of the table"
    )
    parser.add_argument(
        "--sizes", nargs="+", type=int, default=list(SIZES), help="tokens of a text"
    )
    parser.add_argument("--rounds", type=int, default=5)
    return parser.parse_args()


def main() -> None:
    """Run the benchmark and print its report."""
    arguments = parse_arguments()
    gc.freeze()
    rows = [
        row for case in cases() for row in measure(case, sorted(arguments.sizes), arguments.rounds)
    ]
    report = build_report(rows, arguments.rounds)
    print(msgspec.json.encode(report).decode() if arguments.json else table(report))


if __name__ == "__main__":
    main()
