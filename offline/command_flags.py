"""The flags of the command, derived from the fields of the contracts."""

from __future__ import annotations

import argparse
import dataclasses
import re
import types
import typing
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, NoReturn, TypeVar, Union

import msgspec
from typing_extensions import override

from ..base.errors import SetupError
from ..base.json_types import JsonObject
from ..parsers.base import ParserNames
from ..templates.auto_parsers import resolve_auto
from .batch_file import Shard
from .contracts import GenerationOptions, ModelLoadConfig, VlmPreprocessOptions
from .errors import OptionValueError, UnknownOptionError

C = TypeVar("C", ModelLoadConfig, GenerationOptions, VlmPreprocessOptions)

PROGRAM = "python -m backedge.offline"
EPILOG = """\
Exit codes: 0 all rows have an answer, 3 some rows failed (the output says why), 2 nothing was
started, 1 the run was aborted, 130 Ctrl-C. After the last two the same command resumes where the
output ends.
"""
# Fields that are objects, whose own fields have flags.
WITHOUT_FLAG = {"vlm"}
# Help for fields whose docstrings omit it.
_HELP = {
    "backend": "generates the answers",
    "revision": "model revision, if the model has several",
    "trust_remote_code": "whether code that comes with the model may run",
    "top_p": "sample from the likeliest tokens with this total probability",
    "repetition_penalty": "values above 1 discourage repetitions",
    "tool_call_parser": "the model's tool calls, or auto: gives each answer a parsed message",
    "reasoning_parser": "the model's reasoning, or auto: gives each answer a parsed message",
}
_GROUPS = (
    ("model and back end", ModelLoadConfig),
    ("images", VlmPreprocessOptions),
    ("generation", GenerationOptions),
)


class Command(NamedTuple):
    """The parsed command line.

    models: the names that rows may use for the model. settings: all that determines the answers,
    JSON values by name of the flag.
    """

    input: Path
    output: Path
    shard: Shard
    load: ModelLoadConfig
    options: GenerationOptions
    plugins: list[str]
    models: list[str]
    raw: bool
    settings: JsonObject


class _Parser(argparse.ArgumentParser):
    """Raises an error instead of ending the process."""

    @override
    def error(self, message: str) -> NoReturn:
        raise SetupError(f"{message}; {PROGRAM} --help lists the flags.")


def parse_command(arguments: Sequence[str] | None = None) -> Command:
    """Parse the command line. arguments: those of the process if None.

    Raises `SetupError` for a flag that is unknown, missing or invalid.
    """
    parser = build_flag_parser()
    flags, unknown = parser.parse_known_args(arguments)
    if unknown:
        known = [f"--{name.replace('_', '-')}" for name in vars(flags)]
        raise UnknownOptionError(PROGRAM, unknown[0].partition("=")[0], known)
    if flags.tool_call_parser or flags.reasoning_parser:
        flags.message = True
        names = ParserNames(flags.tool_call_parser, flags.reasoning_parser)
        names = resolve_auto(names, flags.model, revision=flags.revision)
        flags.tool_call_parser, flags.reasoning_parser = names.tool_call, names.reasoning
    vlm = _build(VlmPreprocessOptions, flags)
    load = _build(ModelLoadConfig, flags, vlm=vlm)
    options = _build(GenerationOptions, flags)
    models = flags.served_model_name or [flags.model]
    settings = {
        **_describe(load),
        **_describe(vlm),
        **_describe(options),
        "--plugin": flags.plugin,
        "--served-model-name": models,
        "--raw": flags.raw,
        "--shard": str(flags.shard),
    }
    return Command(
        input=flags.input,
        output=flags.output,
        shard=flags.shard,
        load=load,
        options=options,
        plugins=flags.plugin,
        models=models,
        raw=flags.raw,
        # As in JSON, so that they can be compared with those in a file.
        settings=msgspec.json.decode(msgspec.json.encode(settings)),
    )


def build_flag_parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    parser = _Parser(
        prog=PROGRAM,
        description="Generates the answers to a file of conversations, without a server.",
        epilog=EPILOG,
        allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    _add_file_flags(parser.add_argument_group("files"))
    for title, contract in _GROUPS:
        group = parser.add_argument_group(title)
        for field in dataclasses.fields(contract):
            if field.name not in WITHOUT_FLAG:
                _add_flag(group, contract, field)
    generation = parser.add_argument_group("more")
    generation.add_argument(
        "--plugin",
        action="append",
        default=[],
        metavar="NAME",
        help="a plugin: json_stop, no_duplicates, or PACKAGE.MODULE:CLASS; may be repeated",
    )
    generation.add_argument(
        "--served-model-name",
        action="append",
        default=[],
        metavar="NAME",
        help="the name that rows use for the model in their body; default: that of --model",
    )
    return parser


def _add_file_flags(files: argparse._ArgumentGroup) -> None:
    files.add_argument("--input", type=Path, required=True, metavar="FILE", help="JSON lines")
    files.add_argument(
        "--output",
        type=Path,
        required=True,
        metavar="FILE",
        help="JSON lines; an interrupted run resumes after the existing ones",
    )
    files.add_argument(
        "--shard",
        type=_parse_shard,
        default=Shard(),
        metavar="I/N",
        help="process only every N-th line, beginning with line I",
    )
    files.add_argument(
        "--raw", action="store_true", help="add raw_text and token_ids to each answer"
    )


def _add_flag(
    group: argparse._ArgumentGroup, contract: type[Any], field: dataclasses.Field[Any]
) -> None:
    """Add the flag of a field, by the field's type."""
    name = f"--{field.name.replace('_', '-')}"
    required = field.default is dataclasses.MISSING is field.default_factory
    help_text = describe_fields(contract).get(field.name) or _HELP.get(field.name, "")
    shape: dict[str, Any] = {"dest": field.name, "help": help_text.replace("%", "%%")}
    kinds, choices = _read_type(typing.get_type_hints(contract)[field.name])
    if bool in kinds:
        group.add_argument(name, action=argparse.BooleanOptionalAction, default=None, **shape)
    elif Mapping in kinds:
        group.add_argument(
            name, action="append", type=_parse_pair, metavar="NAME=VALUE", default=None, **shape
        )
    elif Sequence in kinds:
        item = int if int in kinds else str
        group.add_argument(
            name, action="append", type=item, metavar=item.__name__.upper(), default=None, **shape
        )
    else:
        kind = next((kind for kind in (float, int) if kind in kinds), str)
        shape |= {"choices": choices} if choices else {"metavar": kind.__name__.upper()}
        group.add_argument(name, type=kind, required=required, default=None, **shape)


def _read_type(hint: Any) -> tuple[set[type], list[str] | None]:
    """Return the types in a field's type, and the words that it may have."""
    if typing.get_origin(hint) is typing.Literal:
        return {str}, list(typing.get_args(hint))
    if typing.get_origin(hint) in {Union, types.UnionType}:
        parts = [_read_type(part) for part in typing.get_args(hint)]
        return set().union(*(kinds for kinds, _ in parts)), next(
            (choices for _, choices in parts if choices), None
        )
    origin = typing.get_origin(hint)
    if origin in {Sequence, Mapping}:
        arguments = {kind for kind in typing.get_args(hint) if isinstance(kind, type)}
        return {origin, *(arguments if origin is Sequence else ())}, None
    return {hint}, None


def describe_fields(contract: type[Any]) -> dict[str, str]:
    """Return the description of each field in a class's docstring: `name: text`, `a, b: text`."""
    names = "|".join(field.name for field in dataclasses.fields(contract))
    text = " ".join((contract.__doc__ or "").split())
    marks = list(re.finditer(rf"(?<![\w.`])((?:{names})(?:, (?:{names}))*): ", text))
    ends = [mark.start() for mark in marks[1:]] + [len(text)]
    return {
        name: text[mark.end() : end].strip().rstrip(".")
        for mark, end in zip(marks, ends, strict=True)
        for name in mark[1].split(", ")
    }


def _build(contract: type[C], flags: argparse.Namespace, **parts: object) -> C:
    """Build the object from the flags; fields without a flag keep their defaults."""
    given = {
        field.name: getattr(flags, field.name)
        for field in dataclasses.fields(contract)
        if field.name not in WITHOUT_FLAG and getattr(flags, field.name) is not None
    }
    for name, value in given.items():
        if isinstance(value, list) and value and isinstance(value[0], tuple):
            given[name] = dict(value)
    try:
        return contract.from_mapping({**given, **parts})
    except OptionValueError as error:
        name = error.field.rpartition(".")[2].replace("_", "-")
        raise SetupError(f"--{name}: {error}") from error


def _describe(contract: ModelLoadConfig | GenerationOptions | VlmPreprocessOptions) -> JsonObject:
    """Return the fields by the names of their flags."""
    values = {
        f"--{field.name.replace('_', '-')}": getattr(contract, field.name)
        for field in dataclasses.fields(contract)
        if field.name not in WITHOUT_FLAG
    }
    # An absolute path, so that it does not depend on the working directory.
    if isinstance(contract, ModelLoadConfig) and Path(contract.model).is_dir():
        values["--model"] = str(Path(contract.model).resolve())
    return values


def _parse_pair(text: str) -> tuple[str, object]:
    """Parse NAME=VALUE; a value that is valid JSON is decoded."""
    name, mark, value = text.partition("=")
    if not name or not mark:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE")
    try:
        return name, msgspec.json.decode(value)
    except (msgspec.DecodeError, RecursionError):
        return name, value


def _parse_shard(text: str) -> Shard:
    number, _, count = text.partition("/")
    if number.isdecimal() and count.isdecimal() and 1 <= int(number) <= int(count):
        return Shard(int(number), int(count))
    raise argparse.ArgumentTypeError(f"{text!r} is not a shard; write 2/8 for the second of eight")
