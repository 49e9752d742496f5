"""The adapter for Dynamo's vLLM worker: all that Backedge knows of `dynamo.vllm`.

Seams, each checked before it is used: `dynamo.vllm.args._build_config` (the parsed
flags), `dynamo.vllm.main.setup_vllm_engine` (the last moment before the engine
loads), `register_model` (the model card) and `DecodeWorkerHandler.generate`.
"""

from __future__ import annotations

import argparse
import functools
import importlib.metadata
import inspect
import json
import logging
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

from ..parsers.base import ParserFactory
from ..parsers.errors import BackedgeError, SetupError
from ..parsers.native import vllm as native
from ..parsers.registry import Kind, known_formats, linear_parsers, uses_native
from ..postprocess.detokenizer import DetokenizerFactory, detokenizers, vocabulary_of
from ..postprocess.messages import KEY, Capability, encode
from ..postprocess.outputs import JsonDict
from ..postprocess.pool import Pool
from ..postprocess.work import Core, InlineCore
from . import flags
from .handler import WorkerPostprocessor, read_spec
from .metrics import WorkerMetrics

logger = logging.getLogger(__name__)

# Of vLLM's EngineArgs, what decides about tokenizer and parsers.
MODEL_ARGUMENTS = (
    *("model", "hf_config_path", "config_format", "revision", "code_revision", "trust_remote_code"),
    *("tokenizer", "tokenizer_mode", "tokenizer_revision", "max_model_len"),
)
SUPPORTED = {"ai-dynamo": "1.6", "vllm": "0.31"}
# module, attribute, and the parameters that the wrapper relies on
SEAMS = (
    ("dynamo.vllm.main", "setup_vllm_engine", ("config",)),
    ("dynamo.vllm.main", "setup_metrics_collection", ("config", "generate_endpoint", "logger")),
    ("dynamo.vllm.main", "register_model", ()),
    ("dynamo.vllm.handlers", "register_model", ()),
    ("dynamo.vllm.handlers", "DecodeWorkerHandler.generate", ("self", "request", "context")),
    ("vllm.v1.engine.output_processor", "RequestState.make_request_output", ("self", "new_token_ids")),
)


def watch_arguments() -> None:
    """Act when Dynamo's worker has parsed a command line with --vllm-processing.

    Dynamo passes both its own configuration and vLLM's raw arguments through
    `_build_config`; nothing later has seen our flags.
    """
    from dynamo.vllm import args

    build_config = getattr(args, "_build_config", None)
    if build_config is None:
        with_exit(check_flags_can_be_seen)(sys.argv)
        return

    @functools.wraps(build_config)
    def built(dynamo_config: Any, vllm_arguments: argparse.Namespace) -> Any:
        config = build_config(dynamo_config, vllm_arguments)
        settings = flags.settings(vllm_arguments)
        if settings is not None:
            with_exit(enable)(config, settings)
        return config

    args._build_config = built  # noqa: SLF001


def check_flags_can_be_seen(arguments: Sequence[str]) -> None:
    """Raise `SetupError` if the flag is there, for a Dynamo in which nothing would see it."""
    if not set(flags.ENABLING).isdisjoint(arguments):
        check_versions()
        raise SetupError("dynamo.vllm.args is not what Backedge expects; install ai-dynamo as published.")


def with_exit(check: Callable[..., Any]) -> Callable[..., Any]:
    """Return `check`, ending the process with the message alone where it refuses."""

    @functools.wraps(check)
    def checked(*arguments: Any) -> Any:
        try:
            return check(*arguments)
        except BackedgeError as error:
            raise SystemExit(f"--vllm-processing: {error}") from error

    return checked


def check_versions() -> None:
    """Raise `SetupError` unless Dynamo and vLLM are of versions this adapter knows."""
    found = {package: importlib.metadata.version(package) for package in SUPPORTED}
    if any(not version.startswith(f"{SUPPORTED[package]}.") for package, version in found.items()):
        have = ", ".join(f"{package} {version}" for package, version in found.items())
        want = ", ".join(f"{package} {version}.x" for package, version in SUPPORTED.items())
        raise SetupError(f"found {have}; this Backedge supports {want}. Install one of these, or drop the flag.")


def check_seams() -> None:
    """Raise `SetupError` unless every seam looks as expected."""
    for module_name, path, parameters in SEAMS:
        target: Any = importlib.import_module(module_name)
        for name in path.split("."):
            target = getattr(target, name, None)
        if target is None or (parameters and first_parameters(target, len(parameters)) != parameters):
            raise SetupError(
                f"{module_name}.{path} of ai-dynamo {importlib.metadata.version('ai-dynamo')} is not what Backedge "
                f"expects; install ai-dynamo {SUPPORTED['ai-dynamo']}.x as published, or drop the flag."
            )


def first_parameters(function: Callable[..., Any], count: int) -> tuple[str, ...]:
    """Return the names of the first `count` parameters."""
    return tuple(inspect.signature(function).parameters)[:count]


def enable(config: Any, settings: flags.WorkerSettings) -> None:
    """Check everything that needs no model, and put the wrappers in place.

    config: Dynamo's, of `dynamo.vllm.args`.
    Raises `SetupError` if this worker cannot post-process.
    """
    check_versions()
    check_seams()
    if config.use_vllm_tokenizer:
        raise SetupError(
            "--use-vllm-tokenizer makes the worker answer with text, so there are no tokens to post-process; "
            "drop one of the two flags."
        )
    if settings.tool_parser_plugin:
        native.load_tool_parser_plugin(settings.tool_parser_plugin)
    names = settings.tool_call_parser, settings.reasoning_parser
    if uses_native(settings.parsers, *names):
        native.check_names(*names, also_known=known_formats())
    if post_processes(config):
        Worker(settings).install()
    else:
        logger.info("--vllm-processing has no effect on this kind of worker; it passes requests through")


def post_processes(config: Any) -> bool:
    """Whether a worker of this configuration answers chat requests with tokens."""
    other = config.embedding_worker or config.classify_worker or config.headless
    return not other and config.disaggregation_mode.value in ("agg", "decode")


def build_parsers(
    kind: Kind, tool_call_parser: str | None, reasoning_parser: str | None, tokenizer: Any, model_config: Any = None
) -> ParserFactory:
    """Return the parsers of this kind and these names for vLLM's `tokenizer`.

    Raises `UnknownParserError` and `UnusableParserError`.
    """
    if uses_native(kind, tool_call_parser, reasoning_parser):
        return native.VllmParsers(tokenizer, tool_call_parser, reasoning_parser, model_config)
    return linear_parsers(tool_call_parser, reasoning_parser, vocabulary_of(tokenizer))


def pool_parts(
    model: dict[str, Any], tool_call_parser: str | None, reasoning_parser: str | None, plugin: str | None
) -> tuple[DetokenizerFactory, ParserFactory]:
    """Return what a process of the pool needs; called in one. model: the `MODEL_ARGUMENTS`."""
    from vllm.engine.arg_utils import EngineArgs
    from vllm.plugins import load_general_plugins
    from vllm.tokenizers import cached_tokenizer_from_config

    load_general_plugins()
    if plugin:
        native.load_tool_parser_plugin(plugin)
    model_config = EngineArgs(**model).create_model_config()
    tokenizer = cached_tokenizer_from_config(model_config)
    return detokenizers(tokenizer), native.VllmParsers(tokenizer, tool_call_parser, reasoning_parser, model_config)


class Worker:
    """The wrappers around one worker process, and what they share."""

    def __init__(self, settings: flags.WorkerSettings) -> None:
        self._settings = settings
        self._metrics = WorkerMetrics()
        self._postprocessor: WorkerPostprocessor | None = None
        self._pool: Pool | None = None

    def install(self) -> None:
        """Put the wrappers in place, before Dynamo builds its handlers."""
        from dynamo.vllm import handlers, main

        main.setup_vllm_engine = self._with_parsers(main.setup_vllm_engine)
        main.setup_metrics_collection = self._with_metrics(main.setup_metrics_collection)
        for module in (main, handlers):
            module.register_model = self._with_capability(module.register_model)
        handlers.DecodeWorkerHandler.generate = self._with_postprocessing(handlers.DecodeWorkerHandler.generate)

    def _with_parsers(self, setup_vllm_engine: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(setup_vllm_engine)
        def setup(config: Any, *args: Any, **kwargs: Any) -> Any:
            with_exit(self._build)(config)
            return setup_vllm_engine(config, *args, **kwargs)

        return setup

    def _build(self, config: Any) -> None:
        """Load the tokenizer and try the parsers, while the engine has not loaded anything."""
        from vllm.tokenizers import cached_tokenizer_from_config

        model_config = config.engine_args.create_model_config()
        tokenizer = cached_tokenizer_from_config(model_config)
        settings = self._settings
        names = settings.tool_call_parser, settings.reasoning_parser
        parsers = build_parsers(settings.parsers, *names, tokenizer, model_config)
        is_native = isinstance(parsers, native.VllmParsers)
        processes = settings.pool_processes(is_native=is_native)
        core: Core = InlineCore(
            detokenizers(tokenizer), parsers, settings.bounds, settings.on_error, self._metrics.report
        )
        if processes:
            arguments = {name: getattr(config.engine_args, name) for name in MODEL_ARGUMENTS}
            plugin = settings.tool_parser_plugin
            build = {"model": arguments, "tool_call_parser": names[0], "reasoning_parser": names[1], "plugin": plugin}
            self._pool = Pool(
                settings.pool(processes, f"{__name__}:pool_parts", build, parsers.name), self._metrics.report
            )
            core = self._pool
        self._metrics.pool = self._pool
        self._postprocessor = WorkerPostprocessor(core, self._metrics)
        logger.info(
            "post-processing in this worker: %s parsers %s, %s, on error %s, merge bounds %s",
            "native" if is_native else "linear",
            parsers.name,
            f"in {processes} processes" if processes else "inline",
            settings.on_error,
            settings.bounds,
        )

    def _with_metrics(self, setup_metrics_collection: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(setup_metrics_collection)
        def setup(config: Any, generate_endpoint: Any, *args: Any, **kwargs: Any) -> Any:
            self._metrics.expose(generate_endpoint)
            return setup_metrics_collection(config, generate_endpoint, *args, **kwargs)

        return setup

    def _with_capability(self, register_model: Callable[..., Any]) -> Callable[..., Any]:
        capability = encode(
            Capability(
                engine="vllm",
                engine_version=importlib.metadata.version("vllm"),
                tool_call_parser=self._settings.tool_call_parser,
                reasoning_parser=self._settings.reasoning_parser,
            )
        )

        @functools.wraps(register_model)
        async def register(*args: Any, runtime_config: Any = None, **kwargs: Any) -> Any:
            if self._pool is not None:
                try:
                    await self._pool.ready()
                except SetupError as error:
                    raise SystemExit(f"--vllm-processing: {error}") from error
            if runtime_config is not None:
                # The binding parses JSON; ours travels as one string, as in the messages.
                runtime_config.set_engine_specific(KEY, json.dumps(capability))
            return await register_model(*args, runtime_config=runtime_config, **kwargs)

        return register

    def _with_postprocessing(self, generate: Callable[..., AsyncIterator[JsonDict]]) -> Callable[..., Any]:
        from dynamo.common.utils.token_ids import normalize_request_token_ids

        @functools.wraps(generate)
        def generate_and_postprocess(handler: Any, request: JsonDict, context: Any) -> AsyncIterator[JsonDict]:
            outputs = generate(handler, request, context)
            spec = read_spec(request)
            if spec is None or self._postprocessor is None:
                return outputs
            token_ids = normalize_request_token_ids(request)["token_ids"]
            running = RunningRequest(handler.engine_client, context.id(), spec.n)
            return self._postprocessor.stream(outputs, spec, token_ids, running)

        return generate_and_postprocess


class RunningRequest:
    """One request in vLLM's engine; see `flow.EngineRequest`. engine: vLLM's AsyncLLM."""

    def __init__(self, engine: Any, request_id: str, n: int) -> None:
        self._engine = engine
        self._request_id = request_id
        self._n = n

    async def end(self, index: int) -> None:
        """End the work on a choice."""
        if self._n == 1:
            await self._engine.abort(self._request_id)
        else:
            await self._engine.abort(self._internal_ids(index), internal=True)

    def collect(self, index: int, tokens: int) -> None:
        """Have `RequestState.make_request_output` skip outputs, as its `stream_interval` does for a whole engine.

        It counts from `sent_tokens_offset`, which it keeps up to date only while it skips.
        """
        for internal_id in self._internal_ids(index):
            state = self._engine.output_processor.request_states.get(internal_id)
            if state is None:
                continue
            tokens = max(tokens, self._engine.output_processor.stream_interval)
            generated = state.detokenizer.num_output_tokens()
            if state.stream_interval == 1:
                state.sent_tokens_offset = generated
            elif tokens == 1 and state.sent_tokens_offset < generated:
                tokens = 2  # tokens wait there, which an interval of 1 would lose
            state.stream_interval = tokens

    def _internal_ids(self, index: int) -> list[str]:
        """Return the engine's own ids of a choice.

        With n > 1 a choice is a request of its own, named after it: `ParentRequest.get_child_info`.
        """
        running = self._engine.output_processor.external_req_ids.get(self._request_id, ())
        return [internal_id for internal_id in running if self._n == 1 or internal_id.startswith(f"{index}_")]
