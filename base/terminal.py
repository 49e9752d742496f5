"""Prints text and JSON of commands, such that no text of a stranger can command the terminal.

Names of models and workers, answers of servers and texts of recordings are written by others. So
every command prints by these two functions, and the styles are parts of a line, not of its text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Container, Sequence
from typing import IO

import click
import msgspec

from .hidden_characters import escape_hidden, is_hidden, without_surrogates

_NOT_PLAIN = re.compile(r"[^\x20-\x7e]")


class Styled(msgspec.Struct, frozen=True):
    """A part of a line with a style. colour: click's name of it."""

    text: str
    colour: str | None = None
    bold: bool | None = None
    dim: bool | None = None
    struck: bool | None = None


Line = str | Styled | list[str | Styled]


def print_text(*lines: Line, file: IO[str] | None = None, err: bool = False) -> None:
    """Print lines, with what a terminal would obey or hide written out.

    file: instead of standard output, or standard error if `err`.
    """
    for line in lines:
        click.echo(format_line(line), file=file, err=err)


def print_json(value: object) -> None:
    """Print `value` as JSON in one line."""
    click.echo(format_json(value))


def format_line(line: Line) -> str:
    """Return a line with its styles."""
    return "".join(map(_format_part, line if isinstance(line, list) else [line]))


def format_table(rows: Sequence[Sequence[str]], right: Container[int] = ()) -> list[str]:
    """Return rows as lines with columns of equal width. right: columns whose cells end there."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.rjust(width) if place in right else cell.ljust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def format_json(value: object, indent: int | None = None) -> str:
    """Return `value` as JSON; hidden characters are escaped in JSON's way, surrogates as text."""
    text = json.dumps(_clean(msgspec.to_builtins(value)), ensure_ascii=False, indent=indent)
    return _NOT_PLAIN.sub(lambda match: _escape(match.group()), text)


def _format_part(part: str | Styled) -> str:
    if isinstance(part, str):
        return escape_hidden(part)
    return click.style(
        escape_hidden(part.text),
        fg=part.colour,
        bold=part.bold,
        dim=part.dim,
        strikethrough=part.struck,
    )


def _escape(char: str) -> str:
    return json.dumps(char)[1:-1] if char != "\n" and is_hidden(char) else char


def _clean(value: object) -> object:
    if isinstance(value, str):
        return value if value.isascii() else without_surrogates(value)
    if isinstance(value, list):
        return [_clean(item) for item in value]
    if isinstance(value, dict):
        return {_clean(key): _clean(item) for key, item in value.items()}
    return value
