"""Completes the names of parsers in the shell."""

from __future__ import annotations

import click

from ..parsers.parser_lookup import known_formats, reasoning_format, tool_format


def complete_tool(_: click.Context, __: click.Parameter, incomplete: str) -> list[str]:
    """Return the names of parsers of tool calls that begin so."""
    return [name for name in known_formats() if name.startswith(incomplete) and tool_format(name)]


def complete_reasoning(_: click.Context, __: click.Parameter, incomplete: str) -> list[str]:
    """Return the names of parsers of reasoning that begin so."""
    names = known_formats()
    return [name for name in names if name.startswith(incomplete) and reasoning_format(name)]
