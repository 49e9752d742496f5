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
from ..postprocess.detokenizer import detokenizers, vocabulary_of
from ..postprocess.messages import KEY, Capability, encode
from ..postprocess.outputs import JsonDict
from . import flags
from .handler import WorkerPostprocessor, read_spec
from .metrics import ParserMetrics

logger = logging.getLogger(__name__)

SUPPORTED = {"ai-dynamo": "1.6", "vllm": "0.31"}
# module, attribute, and the parameters that the wrapper relies on
SEAMS = (
    ("dynamo.vllm.main", "setup_vllm_engine", ("config",)),
    ("dynamo.vllm.main", "setup_metrics_collection", ("config", "generate_endpoint", "logger")),
    ("dynamo.vllm.main", "register_model", ()),
    ("dynamo.vllm.handlers", "register_model", ()),
    ("dynamo.vllm.handlers", "DecodeWorkerHandler.generate", ("self", "request", "context")),
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


class Worker:
    """The wrappers around one worker process, and what they share."""

    def __init__(self, settings: flags.WorkerSettings) -> None:
        self._settings = settings
        self._metrics = ParserMetrics()
        self._postprocessor: WorkerPostprocessor | None = None

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
        self._postprocessor = WorkerPostprocessor(
            detokenizers(tokenizer), parsers, settings.on_error, self._metrics.report
        )
        logger.info(
            "post-processing in this worker: %s parsers %s, on error %s",
            "native" if isinstance(parsers, native.VllmParsers) else "linear",
            parsers.name,
            settings.on_error,
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
            end_choice = functools.partial(end_generation, handler.engine_client, context.id(), spec.n)
            return self._postprocessor.stream(outputs, spec, token_ids, end_choice)

        return generate_and_postprocess


async def end_generation(engine: Any, request_id: str, n: int, index: int) -> None:
    """End the engine's work on choice `index` of a request with `n` choices.

    engine: vLLM's AsyncLLM. With n > 1 it runs the choices as requests of their
    own, named after the choice: `ParentRequest.get_child_info`.
    """
    if n == 1:
        await engine.abort(request_id)
        return
    running = engine.output_processor.external_req_ids.get(request_id, ())
    children = [internal_id for internal_id in running if internal_id.startswith(f"{index}_")]
    await engine.abort(children, internal=True)
