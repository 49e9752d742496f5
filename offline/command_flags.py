"""The flags of the command: one for each field of the contracts, and those of the files."""

from __future__ import annotations

import types
import typing
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, Union

import click
import msgspec
from typing_extensions import override

from ..base.errors import SetupError
from ..base.json_types import JsonObject, check_nesting
from ..parsers.api import native_names
from ..parsers.base import ParserNames
from ..templates.auto_parsers import resolve_auto
from .batch_file import Shard
from .contracts import (
    GenerationOptions,
    ModelLoadConfig,
    OptionValueError,
    VlmPreprocessOptions,
    field_names,
)
from .inference_backend import backend_class

C = TypeVar("C", ModelLoadConfig, GenerationOptions, VlmPreprocessOptions)
Contract = type[ModelLoadConfig] | type[GenerationOptions] | type[VlmPreprocessOptions]

EPILOG = """\
Exit codes: 0 all rows have an answer, 3 some rows failed (the output says why), 2 nothing was
started, 1 the run was aborted, 130 Ctrl-C. After the last two the same command resumes where the
output ends. Each flag also has an environment variable: BACKEDGE_OFFLINE_TOP_P is --top-p.
"""
# The fields of each group of flags, with their help.
FIELDS: dict[str, tuple[Contract, dict[str, str]]] = {
    "Model and back end": (
        ModelLoadConfig,
        {
            "model": "a folder, or a name that the back end can find",
            "backend": "generates the answers",
            "dtype": 'type of the weights: "auto", "float32", "bfloat16"',
            "revision": "model revision, if the model has several",
            "trust_remote_code": "whether code that comes with the model may run",
            "max_model_len": "limit for tokens of prompt and output; default: the model's own",
            "chat_template": "a Jinja file to use instead of the model's own template",
            "tokenizer_module": "the module of a tokenizer of your own",
            "tokenizer_class": "its class; it is called with the model's path",
            "postprocess_parsers": "parsers of Backedge (linear) or of the engine (native)",
            "tool_parser_plugin": "a module or file that registers tool parsers with vLLM",
            "lora": "an adapter that rows may name as their model, and its folder; may be repeated",
            "engine_args": "an argument for the back end, by its own name; may be repeated",
            "fallback_backend": "generates the answers that --backend cannot",
        },
    ),
    "Images": (
        VlmPreprocessOptions,
        {
            "max_pixels": "larger images are shrunk; pixels as the model's processor counts them",
            "min_pixels": "smaller images are enlarged",
            "do_resize": "whether the processor may resize images",
            "image_hosts": "a host from which images may be fetched, HOST or HOST:PORT, or an "
            "address or network, which may then be private; may be repeated",
        },
    ),
    "Generation": (
        GenerationOptions,
        {
            "max_new_tokens": "default: as many as fit in the model's context",
            "temperature": "0 for greedy",
            "top_p": "sample from the likeliest tokens with this total probability",
            "top_k": "sample from so many tokens; 0 or -1 for all",
            "min_p": "sample from tokens with at least this share of the likeliest one's chance",
            "presence_penalty": "values above 0 discourage tokens that the answer has",
            "frequency_penalty": "the same, for each time that the answer has them",
            "repetition_penalty": "values above 1 discourage tokens of prompt and answer",
            "logit_bias": "a token id and what is added to its logit; may be repeated",
            "seed": "for repeatable sampling",
            "n": "number of choices per request",
            "min_tokens": "no answer ends before it has more tokens",
            "ignore_eos": "whether answers go on after the model's end-of-sequence tokens",
            "stop": "a string that ends the answer; may be repeated",
            "stop_token_ids": "a token that ends the answer; may be repeated",
            "include_stop": "whether the text includes what ended it",
            "logprobs": "number of alternatives per token; 0 for the token's own logprob alone",
            "truncate_prompt_tokens": "keep only this many tokens at a prompt's end; default: "
            "reject a prompt that is too long",
            "chat_template_kwargs": "a variable of the chat template; may be repeated",
            "message": "whether answers have a parsed message; stop strings then apply to the "
            "answer and not to the reasoning",
            "tool_call_parser": "parser of the model's tool calls, or auto; implies --message",
            "reasoning_parser": "parser of the model's reasoning, or auto; implies --message",
            "malformed_calls": "open leaves malformed calls in the content, repair guesses, "
            "regenerate has the model write them again, held to a grammar",
            "structural_tag_scope": "always holds all calls that are parsed to a grammar, as "
            "servers do; auto those that are forced, strict or not parallel",
        },
    ),
}


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
    in_order: bool
    settings: JsonObject


def _find_parsers(values: JsonObject, load: ModelLoadConfig) -> dict[str, str | None]:
    """Return the names of the parsers that flags name. Raises `SetupError`."""
    kind, engine = load.postprocess_parsers, backend_class(load.backend).parsing_engine(load)
    names = resolve_auto(
        ParserNames(values["tool_call_parser"], values["reasoning_parser"]),
        str(load.model),
        revision=load.revision,
        chat_template=values["chat_template"],
        known=native_names(kind, engine),
        kind=kind,
    )
    return {"tool_call_parser": names.tool_call, "reasoning_parser": names.reasoning}


def read_command(flags: Mapping[str, Any]) -> Command:
    """Return the command line of parsed flags. Raises `SetupError` for an invalid value."""
    # click gives a tuple for a flag that may be repeated, () if it is not given.
    values: dict[str, Any] = {
        name: [*value] or None if isinstance(value, tuple) else value
        for name, value in flags.items()
    }
    for name in ("engine_args", "lora", "chat_template_kwargs", "logit_bias"):
        values[name] = values[name] and dict(values[name])
    vlm = _build(VlmPreprocessOptions, values)
    load = _build(ModelLoadConfig, values, vlm=vlm)
    if values["tool_call_parser"] or values["reasoning_parser"]:
        values |= {"message": True, **_find_parsers(values, load)}
    options = _build(GenerationOptions, values)
    plugins, models = values["plugin"] or [], values["served_model_name"] or [values["model"]]
    settings = {
        **_describe(load),
        **_describe(vlm),
        **_describe(options),
        "--plugin": plugins,
        "--served-model-name": models,
        "--raw": flags["raw"],
        "--shard": str(flags["shard"]),
    }
    # As in JSON, so that they can be compared with those in a file.
    settings = msgspec.json.decode(msgspec.json.encode(settings))
    files = {name: flags[name] for name in ("input", "output", "shard", "raw", "in_order")}
    return Command(
        **files, load=load, options=options, plugins=plugins, models=models, settings=settings
    )


class GroupedCommand(click.Command):
    """Shows the flags in groups."""

    @override
    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        records = {param.name: param.get_help_record(ctx) for param in self.get_params(ctx)}
        groups = {title: [*fields] for title, (_, fields) in FIELDS.items()}
        named = {name for names in groups.values() for name in names}
        groups = {"Files and more": [name for name in records if name not in named]} | groups
        for title, names in groups.items():
            with formatter.section(title):
                formatter.write_dl([row for name in names if (row := records[name])])


def parse_pair(text: str) -> tuple[str, object]:
    """Parse NAME=VALUE; a value that is valid JSON is decoded. Raises click's BadParameter."""
    name, mark, value = text.partition("=")
    if not name or not mark:
        raise click.BadParameter(f"{text!r} is not NAME=VALUE")
    try:
        return name, msgspec.json.decode(check_nesting(value))
    except msgspec.DecodeError:
        return name, value


def parse_shard(text: str) -> Shard:
    """Parse I/N. Raises click's BadParameter."""
    number, _, count = text.partition("/")
    if number.isdecimal() and count.isdecimal() and 1 <= int(number) <= int(count):
        return Shard(int(number), int(count))
    raise click.BadParameter(f"{text!r} is not a shard; write 2/8 for the second of eight")


# The flags besides those of `FIELDS`, as parameters of click's options.
_FILE = click.Path(path_type=Path)
OTHER_FLAGS: dict[str, JsonObject] = {
    "--input": {"type": _FILE, "required": True, "metavar": "FILE", "help": "JSON lines"},
    "--output": {
        "type": _FILE,
        "required": True,
        "metavar": "FILE",
        "help": "JSON lines; an interrupted run resumes after the existing ones",
    },
    "--shard": {
        "type": parse_shard,
        "default": "1/1",
        "metavar": "I/N",
        "help": "process only every N-th line, beginning with line I",
    },
    "--in-order": {
        "is_flag": True,
        "help": "put the answers into the order of the input when all are there",
    },
    "--raw": {"is_flag": True, "help": "add raw_text and token_ids to each answer"},
    "--plugin": {
        "multiple": True,
        "metavar": "NAME",
        "help": "a plugin: json_stop, no_duplicates, or PACKAGE.MODULE:CLASS; may be repeated",
    },
    "--served-model-name": {
        "multiple": True,
        "metavar": "NAME",
        "help": "the name that rows use for the model in their body; default: that of --model",
    },
}


def build_flags() -> list[click.Parameter]:
    """Return the parameters of the command."""
    others = [click.Option([name], **options) for name, options in OTHER_FLAGS.items()]
    return [
        *others,
        *(
            _build_flag(contract, name, text)
            for contract, fields in FIELDS.values()
            for name, text in fields.items()
        ),
    ]


def _build_flag(contract: Contract, name: str, help_text: str) -> click.Option:
    """Return the flag of a field, by the field's type."""
    flag = f"--{name.replace('_', '-')}"
    kinds, choices = _read_type(typing.get_type_hints(contract)[name])
    if bool in kinds:
        return click.Option([f"{flag}/--no-{flag[2:]}"], default=None, help=help_text)
    if Mapping in kinds:
        return click.Option(
            [flag], multiple=True, type=parse_pair, metavar="NAME=VALUE", help=help_text
        )
    kind = next((kind for kind in (float, int) if kind in kinds), str)
    return click.Option(
        [flag],
        type=click.Choice(choices) if choices else kind,
        multiple=Sequence in kinds,
        required=name == "model",
        help=help_text,
    )


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


def _build(contract: type[C], flags: Mapping[str, Any], **parts: Any) -> C:
    """Build the object from the flags; fields without a flag keep their defaults."""
    names = (name for name in field_names(contract) if flags.get(name) is not None)
    try:
        return contract(**{name: flags[name] for name in names}, **parts)
    except OptionValueError as error:
        name = error.field.rpartition(".")[2].replace("_", "-")
        raise SetupError(f"--{name}: {error}") from error


def _describe(contract: ModelLoadConfig | GenerationOptions | VlmPreprocessOptions) -> JsonObject:
    """Return the fields by the names of their flags."""
    values = {
        f"--{name.replace('_', '-')}": getattr(contract, name)
        for name in field_names(type(contract))
        if name != "vlm"
    }
    # An absolute path, so that it does not depend on the working directory.
    if isinstance(contract, ModelLoadConfig) and Path(contract.model).is_dir():
        values["--model"] = str(Path(contract.model).resolve())
    return values
