"""Command-line flags in tables, which workers, frontends and `backedge doctor` share."""

from __future__ import annotations

import argparse
import contextlib
import difflib
import io
import logging
import os
import re
from collections.abc import Callable, Iterable, Sequence
from typing import NoReturn, TypeVar

from typing_extensions import override

from .errors import SetupError
from .json_types import JsonObject

A = TypeVar("A")
T = TypeVar("T")
Flag = tuple[tuple[str, ...], JsonObject]
"""The names of a flag, and the keyword arguments of `add_argument`."""

PREFIX = "BACKEDGE_"
ON, OFF = "on", "off"
MAX_PORT = 65535
MAX_DIGITS = 9  # limit for a number on the command line


def flag(*names: str, **options: object) -> Flag:
    """Return a flag. options: as for `add_argument`."""
    return names, options


def add_to(parser: argparse.ArgumentParser, flags: Iterable[Flag]) -> None:
    """Add the flags to `parser`, as by `with_variable`."""
    for names, options in flags:
        parser.add_argument(*names, **with_variable(names, options))


class FlagParser(argparse.ArgumentParser):
    """A parser of exact names, whose errors are as those of `end_briefly`."""

    def __init__(
        self,
        prog: str | None = None,
        usage: str | None = None,
        description: str | None = None,
        *,
        add_help: bool = True,
    ) -> None:
        super().__init__(prog, usage, description, add_help=add_help, allow_abbrev=False)

    @override
    def error(self, message: str) -> NoReturn:
        end_briefly(self, message)


def end_briefly(parser: argparse.ArgumentParser, message: str) -> NoReturn:
    """End the process with what argparse says and the nearest flag or value, without the usage."""
    known = find_flags(argparse.ArgumentParser.format_help(parser))
    parser.exit(2, f"{parser.prog}: error: {advise(message, known)}\n")


def find_flags(help_: str) -> set[str]:
    """Return the names of the flags in a parser's help or usage."""
    return set(re.findall(r"(?<![\w-])--[a-zA-Z][\w.-]*", help_))


def run_parser(parse: Callable[[A], T], arguments: A, known: Iterable[str] = ()) -> T:
    """Call a process's own parser. Raises `SetupError` where it would exit with an error.

    known: flags of which the error suggests the nearest, besides those in the usage.
    """
    said = io.StringIO()
    logged = logging.StreamHandler(said)
    logged.setLevel(logging.ERROR)
    logging.getLogger().addHandler(logged)
    try:
        with contextlib.redirect_stderr(said):
            return parse(arguments)
    except SystemExit as error:
        if not error.code:
            raise  # after the help
        usage, _, text = said.getvalue().rpartition("error: ")
        problem = advise(text.strip() or str(error), {*known, *find_flags(usage)})
        raise SetupError(f"the command line: {problem}") from error
    finally:
        logging.getLogger().removeHandler(logged)


def advise(problem: str, known: Iterable[str]) -> str:
    """Return what argparse says, with the nearest flag of `known`, or the nearest listed value."""
    if "did you mean" in problem:
        return problem
    unknown = [word.partition("=")[0] for word in problem.split() if word.startswith("--")]
    if (value := re.search(r"invalid choice: '(.*?)' \(choose from (.*)\)", problem)) is not None:
        unknown, known = [value[1]], re.findall(r"[^', ]+", value[2])
    elif "unrecognized" not in problem.lower():
        return problem
    near = [found for word in unknown for found in difflib.get_close_matches(word, known, n=1)]
    return f"{problem}; did you mean {', '.join(near)}?" if near else problem


# Prefix and suffix of flags that are ours alone; suffix of flags that engines have as well.
OURS, SWITCH, PARSER = "--postprocess-", "-processing", "-parser"
NEAR, VERY_NEAR = 0.85, 0.9


def check_misspelt(arguments: Iterable[str], known: Iterable[str]) -> None:
    """Raise `SetupError` for a flag that is nearly one of ours, which an engine would get.

    known: ours. Only names like no engine's are compared: vLLM's --tokenizer-mode is no
        --tokenizer-module.
    """
    known = {*known}
    ours = [name for name in known if name.startswith(OURS) or name.endswith((SWITCH, PARSER))]
    for name in (argument.partition("=")[0] for argument in arguments):
        cutoff = 0.0 if name.startswith(OURS) else NEAR
        near = difflib.get_close_matches(name, ours, n=1, cutoff=cutoff)
        if near and name.startswith("--") and name not in known:
            raise SetupError(f"the command line: no flag {name}; did you mean {near[0]}?")


def check_variables(names: Iterable[str]) -> None:
    """Raise SystemExit for an environment variable that is nearly that of one of these flags.

    Others are left alone: Kubernetes sets BACKEDGE_SERVICE_HOST for a service named backedge.
    """
    known = list_variables(names)
    ends = [variable.removeprefix(PREFIX) for variable in known]
    for variable in sorted(os.environ):
        if not variable.startswith(PREFIX) or variable in known:
            continue
        name = variable.removeprefix(PREFIX)
        near = difflib.get_close_matches(name, ends, n=1, cutoff=VERY_NEAR)
        if near:
            raise SystemExit(f"{variable}: no such variable; did you mean {PREFIX}{near[0]}?")


SWITCHES = {"1": True, "true": True, ON: True, "0": False, "false": False, OFF: False}


def list_variables(names: Iterable[str]) -> list[str]:
    """Return the environment variables of a flag: BACKEDGE_KEEP_TURNS for --keep-turns."""
    return [f"{PREFIX}{name.lstrip('-').replace('-', '_').upper()}" for name in names]


def with_variable(names: Sequence[str], options: JsonObject) -> JsonObject:
    """Return the options of a flag with the default that its environment variable gives.

    The help names the variable. Raises SystemExit for a value that the flag does not take.
    """
    shown = f"{options.get('help', '')} [{', '.join(list_variables(names))}]"
    return {**options, "help": shown.lstrip(), **read_variable(names, options)}


def read_variable(names: Sequence[str], options: JsonObject) -> JsonObject:
    """Return the default that the environment gives a flag, {} for none; as `with_variable`."""
    for variable in list_variables(names):
        if text := os.environ.get(variable):
            try:
                return {"default": _convert(text, options)}
            except (argparse.ArgumentTypeError, ValueError) as error:
                raise SystemExit(f"{variable}: {error}") from error
    return {}


def parse_switch(text: str) -> bool:
    """Parse the value of a switch's variable. Raises ArgumentTypeError."""
    if text.lower() not in SWITCHES:
        raise argparse.ArgumentTypeError(f"{text!r} is not one of {', '.join(SWITCHES)}")
    return SWITCHES[text.lower()]


def _convert(text: str, options: JsonObject) -> object:
    match options.get("action"):
        case "append":
            return text.split(",")
        case "store_true":
            return parse_switch(text)
    value: object = options.get("type", str)(text)
    choices = options.get("choices")
    if choices and value not in choices:
        raise ValueError(f"{text!r} is not one of {', '.join(choices)}")
    return value


def parse_megabytes(text: str, least: int = 0) -> int:
    """Parse a size in MiB. Raises ArgumentTypeError."""
    return parse_amount(text, "MiB", least)


def parse_amount(text: str, unit: str, least: int) -> int:
    """Parse a whole number of `unit`. Raises ArgumentTypeError."""
    found = int(text) if text.isascii() and text.isdecimal() and len(text) <= MAX_DIGITS else -1
    if found < least:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of {unit} from {least}")
    return found
