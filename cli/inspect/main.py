"""`backedge inspect`: shows the model's output and what each parser state made of it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import NamedTuple, cast, get_args

import click

from ...base.errors import SetupError
from ...base.flags import MAX_PORT
from ...base.limits import MAX_REQUESTS
from ...base.terminal import print_json, print_text
from ...parsers.parser_lookup import Kind
from ...recording.recording import Recording
from ...recording.recording_file import find_request, read_all
from ...recording.rerun import Parts
from ..load_model import LoadedModel, ParserChoice
from .inspection import Inspection, inspect_recording
from .page import render_page
from .server import build_server
from .summary import Chosen, RequestRow, show_rows, summarize
from .terminal import render_text

PROGRAM = "backedge inspect"
BESIDE_HELP = (
    "Also show other parsers on the same tokens: "
    "tool=NAME,reasoning=NAME,kind=linear|native; omitted parts are as recorded."
)


class Options(NamedTuple):
    """The command's flags; a field for each."""

    files: tuple[Path, ...]
    request: str | None
    model: str | None
    beside: str | None
    output: Path | None
    port: int | None
    as_text: bool
    as_json: bool


@click.command("inspect")
@click.argument(
    "files", metavar="FILE...", nargs=-1, required=True, type=click.Path(path_type=Path)
)
@click.option("--request", metavar="N|ID", help="The request, by its number or id.")
@click.option("--model", metavar="PATH", help="Folder of the tokenizer, if not as recorded.")
@click.option("--beside", metavar="PARSERS", help=BESIDE_HELP)
@click.option("--output", metavar="HTML", type=click.Path(path_type=Path), help="Page to write.")
@click.option(
    "--serve",
    "port",
    metavar="PORT",
    type=click.IntRange(0, MAX_PORT),
    help="Serve pages on 127.0.0.1 instead.",
)
@click.option("--text", "as_text", is_flag=True, help="Print the tokens instead of a page.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a page.")
def command(**flags: object) -> None:
    """Inspect a recorded request, token by token.

    FILE was written by --postprocess-record; a folder stands for all its files. The command
    writes a page next to the first one and prints its path. The page shows each token, the
    parser's state after it, what is held back and why, and the deltas. Several requests are
    listed: choose one with --request.
    """
    options = Options(**flags)  # type: ignore[arg-type]  # click passes what is declared above
    if options.port is not None:
        serve(options)
        return
    chosen = choose_request(options)
    if isinstance(chosen, list):
        _print_rows(chosen, as_json=options.as_json)
        return
    inspection = inspect_chosen(chosen, options)
    if options.as_json:
        print_json(inspection)
    elif options.as_text:
        for line in render_text(inspection):
            print_text(line)
    else:
        path = options.output or _default_output(options, chosen.row)
        write_private(path, render_page(inspection), follows=options.output is not None)
        print_text(str(path))


def read_requests(options: Options) -> Iterator[Recording]:
    """Yield the requests of all files; lines that cannot be read are reported."""
    return read_all(options.files, lambda text: print_text(f"{PROGRAM}: {text}", err=True))


def choose_request(options: Options) -> Chosen | list[RequestRow]:
    """Return the requested or only request; the list of all, up to a limit, if there are several.

    Raises `SetupError` without any request.
    """
    recordings = read_requests(options)
    if options.request is not None:
        number, recording = find_request(recordings, options.request)
        return Chosen(summarize(number, recording), recording)
    rows, first = [], None
    for number, recording in enumerate(islice(recordings, MAX_REQUESTS), 1):
        rows.append(summarize(number, recording))
        first = first or recording
    if first is None:
        raise SetupError(f"{' '.join(map(str, options.files))}: no requests.")
    return Chosen(rows[0], first) if len(rows) == 1 else rows


def inspect_chosen(chosen: Chosen, options: Options) -> Inspection:
    """Trace the request through its parsers, and through those of --beside.

    Without the tokenizer, show only ids and times, unless a flag needs more.
    """
    try:
        model = LoadedModel(chosen.recording.model, options.model)
    except SetupError as error:
        if options.beside is not None or options.model is not None:
            raise
        return inspect_recording(chosen, [], f"Token ids only: {error}")
    first, note = build_recorded(model)
    parts = [first]
    if options.beside is not None:
        parts.append(model.build(read_beside(options.beside)))
    return inspect_recording(chosen, parts, note)


def read_beside(text: str) -> ParserChoice:
    """Parse --beside; parts that it omits are as recorded.

    An empty name or "none" means no parser.
    Raises `SetupError` for another form.
    """
    found: dict[str, str] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        key, separator, value = part.partition("=")
        if not separator or key not in ("tool", "reasoning", "kind"):
            raise SetupError(
                f"--beside: {part!r} is not valid; write, for example, "
                "tool=hermes,reasoning=qwen3,kind=native."
            )
        found[key] = "" if value == "none" and key != "kind" else value
    kind = found.get("kind")
    if kind is not None and kind not in get_args(Kind):
        raise SetupError(f"--beside: kind={kind} must be one of {', '.join(get_args(Kind))}.")
    return ParserChoice(found.get("tool"), found.get("reasoning"), cast("Kind | None", kind))


def build_recorded(model: LoadedModel) -> tuple[Parts, str]:
    """Build the recorded parsers, or substitutes with the reason.

    Native parsers need their engine, which may not be installed here. The linear ones of the
    same names are the next best; without them, all text is content.
    """
    note = ""
    for choice in (ParserChoice(), ParserChoice(kind="linear")):
        try:
            return model.build(choice), note
        except SetupError as error:
            note = note or f"Not with the recorded parsers: {error}"
    return model.build(ParserChoice("", "")), note


def serve(options: Options) -> None:
    """Serve the pages until interrupted."""
    chosen = choose_request(options)
    rows = chosen if isinstance(chosen, list) else [chosen.row]

    def render(row: RequestRow) -> str:
        _, recording = find_request(read_requests(options), str(row.number))
        return render_page(inspect_chosen(Chosen(row, recording), options))

    serve_pages(options.port or 0, rows, render)


def serve_pages(port: int, rows: list[RequestRow], render: Callable[[RequestRow], str]) -> None:
    """Serve the pages of `rows`, and print the address."""
    try:
        server, address = build_server(port, rows, render)
    except OSError as error:
        raise SetupError(f"--serve {port}: {error.strerror}; choose another port, or 0.") from error
    with server:
        print_text(address)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            print_text("stopped", err=True)


def write_private(path: Path, text: str, *, follows: bool) -> None:
    """Write a file that only its owner can read: it contains requests and answers.

    follows: a link to another file. Otherwise raises `SetupError` for one: the author of the
        recording may have put it there.
    """
    if not follows and path.is_symlink():
        raise SetupError(f"{path} is a symbolic link; name the page with --output.")
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | (0 if follows else os.O_NOFOLLOW)
    descriptor = os.open(path, flags, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        os.fchmod(descriptor, 0o600)  # the file may have existed
        file.write(text)


def _default_output(options: Options, row: RequestRow) -> Path:
    first = options.files[0]
    name = first.stem if options.request is None else f"{first.stem}-{row.number}"
    return first.with_name(f"{name}.html")


def _print_rows(rows: list[RequestRow], *, as_json: bool) -> None:
    if as_json:
        print_json(rows)
        return
    print_text(*show_rows(rows))
    if len(rows) == MAX_REQUESTS:
        print_text(f"The first {MAX_REQUESTS:,} requests; --request also finds the others.")
    print_text("Choose one with --request.", err=True)
