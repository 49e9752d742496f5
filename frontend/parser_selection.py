"""The parsers of a model, by the frontend's flags and the model's card."""

from __future__ import annotations

import argparse
from collections.abc import Iterable

import msgspec

from ..base.engines import load_native_parsers
from ..base.errors import (
    REASONING_FLAG,
    TOOL_CALL_FLAG,
    ProtocolError,
    SetupError,
    UnknownParserError,
)
from ..base.log import get_logger
from ..engines.dynamo.types import RuntimeConfig, RuntimeData
from ..parsers.api import Engine, native_parsers
from ..parsers.base import ParserFactory, ParserNames
from ..parsers.parser_lookup import (
    Kind,
    known_formats,
    linear_parsers,
    reasoning_format,
    tool_format,
    uses_native,
)
from ..parsers.response_template import DESCRIBED, describing_name, reasoning_part
from ..postprocess.messages import WorkerCard, read
from ..templates.auto_parsers import AUTO
from ..tokenization.detokenizer import read_vocabulary

logger = get_logger(__name__)


class FrontendParsers(msgspec.Struct, frozen=True):
    """The parsers with which this frontend post-processes the streams of plain workers.

    native: they are the engine's own, not the linear ones.
    """

    names: ParserNames
    native: bool = False

    def build(
        self, engine: Engine, tokenizer: object, model_config: object = None
    ) -> ParserFactory:
        """Return the parsers. model_config: as for `native_parsers`, whose errors this raises."""
        if self.native:
            return native_parsers(engine, tokenizer, self.names, model_config)
        return linear_parsers(self.names, read_vocabulary(tokenizer))


class ConfiguredParsers(msgspec.Struct, frozen=True):
    """The parsers that are set for a model.

    by_worker: a worker that post-processes has set them, so they need not be installed here.
    """

    names: ParserNames
    by_worker: bool


def read_worker_card(runtime_config: RuntimeConfig) -> WorkerCard | None:
    """Return what a model's workers advertise; None for plain workers."""
    try:
        return read(WorkerCard, (runtime_config.runtime_data or RuntimeData()).worker_card)
    except ProtocolError as error:
        logger.warning("a model's workers count as plain ones: %s", error)
        return None


def read_configured_parsers(
    flags: argparse.Namespace, runtime_config: RuntimeConfig, worker_card: WorkerCard | None
) -> ConfiguredParsers:
    """Return the parsers that are set for a model.

    A worker that post-processes decides, and may name parsers that are not installed here (of a
    plugin, of a newer engine). For plain workers the frontend's flags count, then the names on
    Dynamo's card, as in Dynamo.
    """
    if worker_card is not None:
        names = ParserNames(worker_card.tool_call_parser, worker_card.reasoning_parser)
        return ConfiguredParsers(names, by_worker=True)
    names = ParserNames(
        flags.tool_call_parser or runtime_config.tool_call_parser,
        flags.reasoning_parser or runtime_config.reasoning_parser,
    )
    return ConfiguredParsers(names, by_worker=False)


def check_names(names: ParserNames, engines: Iterable[str]) -> None:
    """Raise `UnknownParserError` for a name that no parser of this frontend has.

    engines: whose own parsers may be used as well. They are imported, which takes seconds, only
        for a name that no linear parser has.
    """
    # The others are in the models' files.
    names = ParserNames(
        *(None if name in (AUTO, DESCRIBED) else name for name in msgspec.structs.astuple(names))
    )
    try:
        uses_native("linear", names)
    except UnknownParserError as error:
        unknown = error
        for engine in engines:
            try:
                load_native_parsers(engine).check_names(names, known_formats())
            except UnknownParserError as refused:
                unknown = refused
            except (ImportError, SetupError):
                continue  # not installed here
            else:
                return
        raise unknown from None


def find_described(configured: ConfiguredParsers, kind: Kind) -> str:
    """Return the description whose answers transformers' own parser reads; "" for others.

    That parser runs in the processes of a pool, the worker's or this frontend's, never here.
    Raises `UnknownParserError` and `SetupError` as `select_parsers`.
    """
    is_native = uses_native("auto" if configured.by_worker else kind, configured.names)
    return describing_name(configured.names) if is_native else ""


def select_parsers(
    configured: ConfiguredParsers, kind: Kind = "linear", engine: Engine | None = None
) -> FrontendParsers:
    """Return the parsers of a model that this frontend can use.

    kind: which of linear and native parsers to take. engine: whose own ones are installed; None
        where only the linear ones can be used.
    Raises `UnknownParserError` for an unknown name among the flags or on a plain worker's card.
    """
    names = configured.names
    if described := find_described(configured, kind):
        return FrontendParsers(
            ParserNames(None, reasoning_part(described) if names.reasoning else None)
        )
    if not configured.by_worker:
        is_native = uses_native("linear" if engine is None else kind, names)
        if is_native and engine is not None:
            load_native_parsers(engine).check_names(names, known_formats())
        return FrontendParsers(names, is_native)
    # A worker may use native parsers whatever this frontend's flag says.
    if engine is not None and not uses_native("native" if kind == "native" else "auto", names):
        return FrontendParsers(names)
    usable = _select_linear(names) if engine is None else select_installed(engine, names)
    for name in {names.tool_call, names.reasoning} - {usable.tool_call, usable.reasoning}:
        logger.warning(
            "the worker's parser %r is not installed here; requests are rendered and constrained "
            "without it",
            str(name).partition(":")[0],
        )
    return FrontendParsers(usable, native=engine is not None)


def select_installed(engine: Engine, names: ParserNames) -> ParserNames:
    """Return `names` without those of which the installed engine has no parser."""
    known = load_native_parsers(engine).known_names
    return ParserNames(
        names.tool_call if names.tool_call in known(TOOL_CALL_FLAG) else None,
        names.reasoning if names.reasoning in known(REASONING_FLAG) else None,
    )


def _select_linear(names: ParserNames) -> ParserNames:
    """Return `names` without those that have no linear parser."""
    return ParserNames(
        names.tool_call if names.tool_call and tool_format(names.tool_call) else None,
        names.reasoning if names.reasoning and reasoning_format(names.reasoning) else None,
    )
