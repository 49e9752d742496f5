"""Post-processing for any engine with Dynamo's own interface, `LLMEngine`; nothing is patched.

settings, rest = read_flags()
engine, config = await MyEngine.from_args(rest)
return postprocessed(engine, config, settings), config
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing
from typing import Protocol

import msgspec
from dynamo.common.backend.engine import EngineConfig, LLMEngine
from dynamo.common.backend.worker import WorkerConfig
from dynamo.common.configuration.groups.runtime_args import (
    DynamoRuntimeArgGroup,
    DynamoRuntimeConfig,
)
from dynamo.common.constants import DisaggregationMode
from dynamo.common.utils.runtime import parse_endpoint
from typing_extensions import override

from ..base.flags import FlagParser, add_to
from ..base.json_types import JsonObject
from ..base.log import get_logger
from ..base.seams import check_seams
from ..engines.dynamo import seams
from ..engines.dynamo.types import Context, Endpoint
from ..parsers.base import ParserFactory, ParserNames
from ..parsers.passthrough import PassthroughParsers
from ..postprocess.postprocessor import starts_in_reasoning
from ..tokenization.model_files import find_folder, load_tokenizer_json
from ..tokenization.tokenizer_selection import ModelRuntimeConfig, parse_tokenizer_flags
from .decoding import OtherTokenizer, choose_tokenizer
from .engine_request import EngineRequestHandle
from .engine_worker import (
    EngineModel,
    GenerateCall,
    Worker,
    choose_parsers,
    find_names,
    load_native,
)
from .flags import (
    GROUP,
    PARSER_FLAGS,
    SHARED_FLAGS,
    WorkerSettings,
    read_parser_names,
    read_postprocessing,
)
from .stock_frontends import complete_names

logger = get_logger(__name__)

EXPORTS = "OTEL_EXPORT_ENABLED"
"""Dynamo's variable that has it export spans."""
GENERATING = (DisaggregationMode.AGGREGATED, DisaggregationMode.DECODE)


def read_flags(argv: Sequence[str] | None = None) -> tuple[WorkerSettings, list[str]]:
    """Return the settings that Backedge's flags ask for, and the arguments that are not Backedge's.

    argv: None for those of this process. With --help among them, Backedge's flags are printed, and
    --help is left to the engine. Raises SystemExit for a wrong value.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    parser = FlagParser(prog=GROUP, add_help=False)
    add_to(parser, (*PARSER_FLAGS, *SHARED_FLAGS))
    if {"-h", "--help"} & {*arguments}:
        parser.print_help()
    flags, rest = parser.parse_known_args(arguments)
    names, tokenizer = read_parser_names(flags), parse_tokenizer_flags(flags)
    return read_postprocessing(flags, names, tokenizer), rest


def parse_with_dynamos(
    parser: argparse.ArgumentParser, argv: Sequence[str]
) -> tuple[argparse.Namespace, WorkerConfig]:
    """Parse the flags of a worker's `parser`, and Dynamo's. Raises SystemExit for a wrong one.

    parser: has --model and --served-model-name.
    """
    DynamoRuntimeArgGroup().add_arguments(parser)
    flags = parser.parse_args(argv)
    runtime = DynamoRuntimeConfig.from_cli_args(flags)
    runtime.validate()
    if runtime.endpoint:
        runtime.namespace, runtime.component, runtime.endpoint = parse_endpoint(runtime.endpoint)
    config = WorkerConfig.from_runtime_config(
        runtime, model_name=flags.model, served_model_name=flags.served_model_name
    )
    return flags, config


def postprocessed(
    engine: LLMEngine, config: WorkerConfig, settings: WorkerSettings | None = None
) -> LLMEngine:
    """Return an engine that post-processes what `engine` generates; give it to Dynamo's `Worker`.

    config: names the model, whose files have the tokenizer. settings: None for the defaults.
    An engine that only prefills or encodes comes back as it is.
    Raises `SetupError` if the installed Dynamo lacks what post-processing needs.
    """
    if config.disaggregation_mode not in GENERATING:
        mode = config.disaggregation_mode.value
        logger.info("a worker of mode %s generates no answers; it is not post-processed", mode)
        return engine
    check_dynamo()
    worker = LLMEngineWorker(engine, config, settings or WorkerSettings())
    return PostprocessedEngine(engine, worker)


def check_dynamo() -> None:
    """Raise `SetupError` if the installed Dynamo lacks what post-processing needs."""
    check_seams(seams.WORKER, seams.PACKAGES)


class LLMEngineWorker(Worker[LLMEngine]):
    """The post-processing of an engine that Dynamo knows only by its interface."""

    def __init__(self, engine: LLMEngine, config: WorkerConfig, settings: WorkerSettings) -> None:
        super().__init__(settings)
        self._engine = engine
        self._config = config

    @property
    @override
    def engine_name(self) -> str:
        return str(getattr(self._engine, "engine_name", type(self._engine).__name__))

    @property
    @override
    def engine_version(self) -> str:
        package = sys.modules[type(self._engine).__module__.partition(".")[0]]
        own = getattr(package, "__version__", "unknown")
        return str(getattr(self._engine, "engine_version", own))

    @property
    @override
    def parsers_in_rust(self) -> ParserNames:
        config = self._config
        return ParserNames(config.tool_call_parser or None, config.reasoning_parser or None)

    @property
    @override
    def model_path(self) -> str:
        return str(self._config.model_name)

    @override
    def load(self) -> EngineModel:
        settings, folder = self.settings, str(find_folder(self.model_path))
        template = self._config.custom_jinja_template
        kind = settings.parsers
        names = find_names(settings.names, folder, kind, chat_template=template)
        names = complete_names(names, self.parsers_in_rust, kind)
        self.settings = msgspec.structs.replace(settings, names=names)
        other = self.other_tokenizer(folder, trust_remote_code=False)
        tokenizer = load_tokenizer(folder, other)
        parsers = choose_parsers(kind, names, tokenizer, lambda: load_native(folder, names))
        return EngineModel(tokenizer, parsers, {"folder": folder, "other": other})

    @override
    def find_vocabulary_size(self, handler: LLMEngine) -> int | None:
        size: int | None = getattr(handler, "vocabulary_size", None)
        return size

    @override
    def run(
        self, call: GenerateCall[LLMEngine]
    ) -> tuple[AsyncIterator[JsonObject], EngineRequestHandle]:
        sampling = call.request.get("sampling_options") or {}
        if sampling.get("guided_decoding") and "require_reasoning" not in call.request:
            # Dynamo's field for engines whose grammar would begin with the first token.
            call.request["require_reasoning"] = starts_in_reasoning(
                call.params, self.parsers, call.token_ids, self.metrics.report
            )
        span = find_span(call.context)
        if span is not None:
            span.set_attribute("backedge.parsers", self.settings.names.label)
        request = LLMEngineRequest(call, span)
        return request.outputs(), request


def load_tokenizer(folder: str, other: OtherTokenizer | None) -> object:
    """Load the model's tokenizer.json, or the tokenizer that the flags select."""
    return choose_tokenizer(other, lambda: load_tokenizer_json(folder))


def pool_parts(
    names: ParserNames, folder: str, other: OtherTokenizer | None
) -> tuple[object, ParserFactory]:
    """Return tokenizer and parsers for a pool process; runs in the fork server."""
    # A description's parsers need no engine, whose import may start MPI or take seconds.
    parsers = load_native(folder, names) if names != ParserNames() else PassthroughParsers()
    return load_tokenizer(folder, other), parsers


class Span(Protocol):
    """Dynamo's span of one request. Source: `dynamo.common.backend.telemetry`."""

    def set_attribute(self, key: str, value: object) -> None:
        """Set an attribute, or replace it."""


def find_span(context: Context) -> Span | None:
    """Return the span of a request; None where Dynamo exports none, since it would warn."""
    if os.environ.get(EXPORTS, "").lower() not in ("1", "true", "on", "yes"):
        return None
    from dynamo.common.backend.telemetry import current_span

    span: Span = current_span(context)
    return span


class LLMEngineRequest(EngineRequestHandle):
    """One running request. The interface has one engine request for all of its choices.

    span: gets the number of the answer's calls.
    """

    def __init__(self, call: GenerateCall[LLMEngine], span: Span | None = None) -> None:
        self._call = call
        self._running = set(range(call.params.n))
        self._span = span
        self._calls = Counter[bool]()

    @override
    async def abort(self, index: int) -> None:
        self._running.discard(index)
        if not self._running:
            await self._call.handler.abort(self._call.context)

    @override
    def set_stream_interval(self, index: int, tokens: int) -> None:
        """Do nothing: the interface cannot ask an engine for groups of tokens."""

    @override
    def note_call(self, outcome: str) -> None:
        if self._span is None:
            return
        is_open = outcome != "complete"
        self._calls[is_open] += 1
        name = "backedge.open_calls" if is_open else "backedge.calls"
        self._span.set_attribute(name, self._calls[is_open])

    async def outputs(self) -> AsyncGenerator[JsonObject, None]:
        """Yield the engine's outputs, until all choices have ended.

        Many engines have no `abort`; all of them end with their generator.
        """
        outputs = self._call.start()
        try:
            async for output in outputs:
                yield output
                if not self._running:
                    return
        finally:
            if isinstance(outputs, AsyncGenerator):
                await outputs.aclose()


class RuntimeData(ModelRuntimeConfig):
    """The entries of an `EngineConfig`, which Dynamo puts on the model's card."""

    def __init__(self, config: EngineConfig) -> None:
        config.runtime_data = self._entries = config.runtime_data or {}

    @override
    def set_engine_specific(self, key: str, value: str) -> None:
        self._entries[key] = json.loads(value)


def start_generating(
    engine: LLMEngine, request: JsonObject, context: Context
) -> AsyncGenerator[JsonObject, None]:
    """Call the engine's own method, whose class is not known before."""
    outputs: AsyncGenerator[JsonObject, None] = engine.generate(request, context)
    return outputs


async def end_once(
    chunks: AsyncGenerator[JsonObject, None], choices: int
) -> AsyncGenerator[JsonObject, None]:
    """Leave the `finish_reason` to the last choice: Dynamo ends the response with the first one.

    Backedge's frontend reads each choice's own from its deltas.
    """
    async with aclosing(chunks):
        async for chunk in chunks:
            if chunk.get("finish_reason") is None:
                yield chunk
                continue
            choices -= 1
            yield {**chunk, "finish_reason": None} if choices else chunk


class PostprocessedEngine:
    """An engine whose outputs are post-processed. Everything else is the engine's own."""

    def __init__(self, engine: LLMEngine, worker: LLMEngineWorker) -> None:
        self._engine = engine
        self._worker = worker
        self._generate = worker.with_postprocessing(start_generating)

    def __getattr__(self, name: str) -> object:
        value: object = getattr(self._engine, name)
        return value

    async def start(self, worker_id: int) -> EngineConfig:
        """Build post-processing, start the engine, and put the worker's card on the model's."""
        self._worker.build()
        config = await self._engine.start(worker_id)
        await self._worker.publish_worker_card(RuntimeData(config))
        return config

    def generate(self, request: JsonObject, context: Context) -> AsyncGenerator[JsonObject, None]:
        """Yield the post-processed outputs of one request."""
        chunks = self._generate(self._engine, request, context)
        choices = (request.get("sampling_options") or {}).get("n") or 1
        return chunks if choices == 1 else end_once(chunks, choices)

    async def on_endpoint_ready(self, endpoint: Endpoint) -> None:
        """Serve Backedge's metrics with the endpoint, and give it to the engine."""
        self._worker.attach(endpoint)
        await self._engine.on_endpoint_ready(endpoint)


# Inherited defaults would hide the engine's own methods from `__getattr__`.
LLMEngine.register(PostprocessedEngine)
