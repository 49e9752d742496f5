"""`backedge replay`: repeats a recorded stream with the same or other parsers."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, get_args

import click
import msgspec

from ...base.errors import SetupError
from ...base.terminal import print_json, print_text
from ...parsers.api import Engine
from ...parsers.parser_lookup import Kind
from ...postprocess.messages import ChoiceDelta
from ...recording.comparison import Difference, Side
from ...recording.parser_case import read_case, run_case, write_case
from ...recording.recording import Recording
from ...recording.recording_file import find_request, list_files, read_all
from ...recording.rerun import (
    RANDOM,
    RECORDED,
    WHOLE,
    Attempt,
    Parts,
    cut,
    find_differences,
    read_sent,
    rerun,
    rerun_discarded,
)
from ..http_answer import waiting_at_most
from ..load_model import LoadedModel, ParserChoice
from .live import as_live, ask, find_timeout
from .minimize import Minimal, minimize_request

PROGRAM = "backedge replay"
EQUAL, DIFFERENT, ERROR = 0, 1, 2
SENT = "sent"
AGAINST: dict[str, Kind | None] = {SENT: None, "linear": "linear", "native": "native"}
CHUNKS = re.compile(rf"{RECORDED}|{WHOLE}|{RANDOM}|[1-9]\d{{0,8}}")
# Limit for a text in a line of output.
MAX_SHOWN = 160


class Options(NamedTuple):
    """The command's flags; a field for each."""

    files: tuple[Path, ...]
    request: str | None
    model: str | None
    tool_call_parser: str | None
    reasoning_parser: str | None
    parsers: Kind | None
    engine: str | None
    against: str
    chunks: str
    seed: int
    url: str | None
    minimize: Path | None
    as_json: bool

    @property
    def choice(self) -> ParserChoice:
        """The parsers that the flags name."""
        return ParserChoice(self.tool_call_parser, self.reasoning_parser, self.parsers, self.engine)


class Result(msgspec.Struct):
    """The result of one request. left, right: names of the sides. tokens: of all choices.

    discarded: attempts at calls that were generated again.
    """

    request: str
    left: str
    right: str
    equal: bool
    tokens: int
    differences: list[Difference]
    discarded: list[Attempt] = []


def check_chunks(_: click.Context, __: click.Parameter, value: str) -> str:
    """Validate --chunks. Raises click's BadParameter."""
    if CHUNKS.fullmatch(value) is None:
        raise click.BadParameter(f"{value!r} must be recorded, all, random, or a number from 1")
    return value


@click.command("replay")
@click.argument(
    "files", metavar="FILE...", nargs=-1, required=True, type=click.Path(path_type=Path)
)
@click.option("--request", metavar="N|ID", help="One request, by its number or id.")
@click.option("--model", metavar="PATH", help="Folder of the tokenizer, if not as recorded.")
@click.option(
    "--tool-call-parser",
    metavar="NAME",
    help="Another parser; '' for none.",
)
@click.option(
    "--reasoning-parser",
    metavar="NAME",
    help="Another parser; '' for none.",
)
@click.option("--parsers", type=click.Choice(get_args(Kind)), help="Kind of parsers to use.")
@click.option(
    "--engine", type=click.Choice(get_args(Engine)), help="Engine whose native parsers to use."
)
@click.option(
    "--against",
    type=click.Choice(list(AGAINST)),
    default=SENT,
    help="What to compare with: the deltas that were sent (default), or other parsers of the "
    "recorded names.",
)
@click.option(
    "--chunks",
    metavar="CUTS",
    default=RECORDED,
    callback=check_chunks,
    help="How to cut the tokens: 'recorded' (default), a number of tokens, 'all' at once, or "
    "'random' pieces.",
)
@click.option("--seed", type=int, default=0, help="Seed for random pieces. Default: 0.")
@click.option(
    "--url",
    metavar="URL",
    help="Compare with the answer of a running frontend, which serves `python -m "
    "backedge.worker.demo --recordings FILE`.",
)
@click.option(
    "--minimize",
    metavar="CASE",
    type=click.Path(path_type=Path),
    help="Write the shortest stream that still differs to this file, as a test case.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON, one object per request.")
def command(**flags: object) -> None:
    """Post-process recorded requests again and compare.

    FILE was written by --postprocess-record, or by --minimize: a test case runs with the linear
    parsers and is compared with its expectation. A folder stands for all its files. Prints
    "equal", or the first difference: its token, what both sides have there, and the deltas that
    contain it. Exit code 0: equal, 1: different, 2: an error.
    """
    options = Options(**flags)  # type: ignore[arg-type]  # click passes what is declared above
    files = list_files(options.files)
    cases = [file for file in files if is_case(file)]
    codes = [run_case_file(file, as_json=options.as_json) for file in cases]
    if len(cases) < len(files):
        codes += replay_all([file for file in files if file not in cases], options)
    sys.exit(max(codes))


def replay_all(files: Sequence[Path], options: Options) -> list[int]:
    """Replay the selected requests of recordings; return their exit codes."""
    codes = []

    def warn(text: str) -> None:
        codes.append(ERROR)
        print_text(f"{PROGRAM}: {text}", err=True)

    recordings = list(read_all(files, warn))
    if options.request is not None:
        recordings = [find_request(recordings, options.request)[1]]
    elif not recordings:
        raise SetupError(f"{' '.join(map(str, files))}: no requests.")
    else:
        recordings = [each for each in recordings if each.chunks] or recordings
    for recording in recordings:
        check_comparable(recording)
    if options.minimize is not None:
        return [*codes, minimize_one(recordings, options, options.minimize)]
    with waiting_at_most(find_timeout(recordings)):
        return [*codes, *_replay_each(recordings, options)]


def _replay_each(recordings: Sequence[Recording], options: Options) -> Iterator[int]:
    """Replay each request, print the result, and yield its exit code."""
    models: dict[str, LoadedModel] = {}
    for recording in recordings:
        path = recording.model.path
        model = models[path] = models.get(path) or LoadedModel(recording.model, options.model)
        model.recorded = recording.model
        result = replay_one(recording, model, options)
        _print(result, describe(result), as_json=options.as_json)
        yield EQUAL if result.equal else DIFFERENT


def check_comparable(recording: Recording) -> None:
    """Raise `SetupError` for a recording without anything to compare."""
    if not recording.chunks:
        raise SetupError(
            f"request {recording.params.response_id} has no tokens ({recording.outcome}"
            f"{': ' + recording.error if recording.error else ''}); choose another one."
        )


def replay_one(recording: Recording, model: LoadedModel, options: Options) -> Result:
    """Replay and compare one request. Raises `SetupError`."""
    parts = model.build(options.choice)
    if options.url is not None:
        recording = as_live(recording)
    elif options.against != SENT:
        # Streamed, so that a difference is found at its token, not at the end of the answer.
        streamed = msgspec.structs.replace(recording.params, stream=True)
        recording = msgspec.structs.replace(recording, params=streamed)
    chunks = cut(recording, options.chunks, options.seed)
    right = rerun(recording, parts, chunks)
    is_sent = False
    if options.url is not None:
        left, name = ask(recording, options.url), options.url
    elif options.against != SENT:
        against = build_left(model, options)
        left, name = rerun(recording, against, chunks), against.name
    else:
        left, name, is_sent = read_sent(recording), SENT, True
    differences = find_differences(recording, left, right, is_sent=is_sent)
    tokens = sum(len(part.chunk.token_ids) for part in recording.chunks)
    request = recording.params.response_id
    discarded = rerun_discarded(recording, parts)
    return Result(request, name, parts.name, not differences, tokens, differences, discarded)


def build_left(model: LoadedModel, options: Options) -> Parts:
    """Build the parsers for the left side: those of --against, or the recorded ones."""
    return model.build(ParserChoice(kind=AGAINST[options.against], engine=options.engine))


def minimize_one(recordings: Sequence[Recording], options: Options, path: Path) -> int:
    """Write the test case of one request; return the exit code. Raises `SetupError`."""
    if len(recordings) != 1:
        raise SetupError(
            f"--minimize takes one request, not {len(recordings)}; choose one with --request."
        )
    (recording,) = recordings
    model = LoadedModel(recording.model, options.model)
    left, right = build_left(model, options), model.build(options.choice)
    names = options.choice.names(recording.model)
    found = minimize_request(recording, model, left, right, names)
    path.write_bytes(write_case(found.case))
    _print(found.case, summarize(found, path), as_json=options.as_json)
    return EQUAL


def _print(value: object, lines: Sequence[str], *, as_json: bool) -> None:
    if as_json:
        print_json(value)
    else:
        print_text(*lines)


def summarize(found: Minimal, path: Path) -> list[str]:
    """Return the output of --minimize."""
    case = found.case
    counts = f"{len(found.token_ids)} of {found.before} tokens still differ"
    return [
        f"{path}: {counts} (after {found.trials} trials)",
        f"  tokens: {quote(''.join(case.tokens))}",
        f"  {case.instead_of}: {json.dumps(msgspec.to_builtins(case.instead))}",
        f"  {case.expect_of}: {json.dumps(msgspec.to_builtins(case.expect))}",
    ]


def is_case(path: Path) -> bool:
    """Whether a file is a test case, which is indented; a recording is a single line."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(2).strip() == b"{"


def run_case_file(path: Path, *, as_json: bool) -> int:
    """Run a test case; return the exit code. Raises `BackedgeError`."""
    case = read_case(path)
    given = run_case(case)
    equal = given == case.expect
    found, expected = (json.dumps(msgspec.to_builtins(each)) for each in (given, case.expect))
    lines = [f"{case.id}: {'equal' if equal else 'different'} (linear {case.parsers.label})"]
    if not equal:
        lines += [f"  expected: {expected}", f"  given:    {found}"]
    _print({"request": case.id, "equal": equal, "given": given}, lines, as_json=as_json)
    return EQUAL if equal else DIFFERENT


def describe(result: Result) -> list[str]:
    """Return the lines of a result."""
    head = f"{result.request}: {'equal' if result.equal else 'different'}"
    lines = [f"{head} ({result.right}, {result.tokens} tokens, against {result.left})"]
    lines += map(describe_attempt, result.discarded)
    width = max(len(result.left), len(result.right))
    for difference in result.differences:
        lines.append(f"  choice {difference.choice}, token {difference.token}:")
        for name, side in ((result.left, difference.left), (result.right, difference.right)):
            lines.append(f"    {name:{width}}  {show_side(side)}")
        for name, side in ((result.left, difference.left), (result.right, difference.right)):
            lines.append(f"    {name:{width}}  delta {show_delta(side.delta)}")
    return lines


def describe_attempt(attempt: Attempt) -> str:
    """Return the line of an attempt that was discarded."""
    found = attempt.found or "nothing"
    again = "found again" if found == attempt.reason else f"now: {found}"
    return (
        f"  {attempt.tokens} tokens after token {attempt.token} were discarded: "
        f"{attempt.reason} ({again})"
    )


def show_side(side: Side) -> str:
    """Describe one side in a line."""
    if side.text:
        return f"{side.kind}: {quote(side.text)}"
    return side.kind if side.delta is None else f"{side.kind}: ends here"


def show_delta(delta: ChoiceDelta | None) -> str:
    """Return a delta as JSON in one line."""
    text = "none" if delta is None else json.dumps(msgspec.to_builtins(delta))
    return text if len(text) <= 2 * MAX_SHOWN else text[: 2 * MAX_SHOWN] + "..."


def quote(text: str) -> str:
    """Return a model's text with all but plain characters escaped."""
    shown = json.dumps(text[:MAX_SHOWN])
    return shown if len(text) <= MAX_SHOWN else f"{shown}..."
