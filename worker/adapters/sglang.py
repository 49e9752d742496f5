"""The adapter for Dynamo's SGLang worker: all that Backedge knows of `dynamo.sglang`.

    python -m dynamo.sglang --model M --sglang-processing --tool-call-parser qwen25
    python -m backedge.worker.sglang ...    # the same, where SGLang skips the entry point

Seams, each checked before it is used: the parser of `ServerArgs`' flags and
`dynamo.sglang.args.Config` (the parsed flags, before the engine loads),
`get_runtime_config` (the model card), `DecodeWorkerHandler.generate`, and the engine's
`async_generate`, which knows the names that the engine gives a request's choices.
"""

from __future__ import annotations

import argparse
import asyncio
import functools
from collections.abc import AsyncIterator, Callable
from contextvars import ContextVar
from typing import Any

from ...parsers.base import ParserFactory, ParserNames
from ...parsers.errors import SetupError
from ...postprocess.engine_output import JsonDict
from ...postprocess.fallback import FallbackParser
from ...postprocess.messages import PostprocessParams
from .. import flags
from ..request_stream import EngineRequestHandle
from .base import EngineSupport, Start, Worker, choose_parsers, patch, pick_fields

# Of SGLang's ServerArgs, what decides about the tokenizer besides its path. Not its backend: ours are faster.
TOKENIZER_OPTIONS = ("tokenizer_mode", "trust_remote_code", "revision")
# Of Dynamo's flags, those of workers that do not answer chats, or have handlers of their own.
OTHER_WORKERS = (
    *("image_diffusion_worker", "video_generation_worker", "rerank_worker", "embedding_worker"),
    *("multimodal_encode_worker", "multimodal_worker", "diffusion_worker"),
)
# The second stands for the first in a process that shares another's engine.
ENGINES = (
    ("sglang.srt.entrypoints.engine", "Engine.async_generate"),
    ("dynamo.sglang.gateway", "GatewayEngine.async_generate"),
)
ENGINE = EngineSupport(
    name="sglang",
    version="0.5",
    patch_points=(
        ("dynamo.sglang.args", "Config.__init__", ("self", "server_args", "dynamo_args")),
        ("dynamo.sglang.init_llm", "setup_sgl_metrics", ("engine", "config", "generate_endpoint")),
        ("dynamo.sglang.register", "get_runtime_config", ("engine", "server_args", "dynamo_args")),
        (
            "dynamo.sglang.request_handlers",
            "DecodeWorkerHandler.generate",
            ("self", "request", "context"),
        ),
        *((module, path, ("self", "prompt", "sampling_params")) for module, path in ENGINES),
        (
            "sglang.srt.managers.tokenizer_manager",
            "TokenizerManager.abort_request",
            ("self", "rid"),
        ),
        ("sglang.srt.managers.tokenizer_manager", "ReqState", ("out_list", "finished", "event")),
    ),
    metrics=("dynamo.sglang.init_llm", "setup_sgl_metrics"),
)
GRAMMARS = ("json_schema", "regex", "ebnf", "structural_tag")
# SGLang logs a warning for every delivery of 20 outputs or more that had to wait.
MAX_COLLECTED = 19


def watch_arguments(parser: argparse.ArgumentParser) -> None:
    """Act when `parser`, which has SGLang's flags, has parsed a command line with --sglang-processing.

    SGLang's own record of the flags drops ours.
    """
    parse = parser.parse_args

    @functools.wraps(parse)
    def parsed(*args: Any, **kwargs: Any) -> argparse.Namespace:
        arguments: argparse.Namespace = parse(*args, **kwargs)
        settings = ENGINE.exit_on_setup_error(flags.settings)(arguments, "sglang")
        flags.keep_engine_choices(arguments)
        if settings is not None:
            ENGINE.exit_on_setup_error(ENGINE.check_patch_points)()
            patch("dynamo.sglang.args", "Config.__init__", functools.partial(enable_once, settings))
        return arguments

    vars(parser)["parse_args"] = parsed


def enable_once(settings: flags.WorkerSettings, init: Callable[..., None]) -> Callable[..., None]:
    """Return `init` of Dynamo's configuration, switching post-processing on when the first one is there."""

    @functools.wraps(init)
    def initialize(config: Any, *args: Any, **kwargs: Any) -> None:
        type(config).__init__ = init
        init(config, *args, **kwargs)
        ENGINE.exit_on_setup_error(SglangWorker.enable)(config, settings)

    return initialize


def tokenizer_of(path: str, options: dict[str, Any]) -> Any:
    """Return SGLang's tokenizer. options: the `TOKENIZER_OPTIONS`."""
    from sglang.srt.utils.hf_transformers_utils import get_tokenizer

    return get_tokenizer(path, **options)


def pool_parts(names: ParserNames, path: str, options: dict[str, Any]) -> tuple[Any, ParserFactory]:
    """Return the tokenizer and the parsers of a process of the pool; called in one.

    path, options: see `tokenizer_of`.
    """
    tokenizer = tokenizer_of(path, options)
    return tokenizer, native_parsers(tokenizer, names)


def native_parsers(tokenizer: Any, names: ParserNames) -> ParserFactory:
    """Return SGLang's own parsers; importing them takes seconds."""
    from ...parsers.native.sglang import SglangParsers

    return SglangParsers(tokenizer, names)


class SglangWorker(Worker):
    """See `Worker`."""

    engine = ENGINE

    def check_config(self) -> None:
        """See `Worker`."""
        if self.config.dynamo_args.use_sglang_tokenizer:
            raise SetupError(
                "--use-sglang-tokenizer makes the worker answer with text, so there are no tokens to post-process; "
                "drop one of the two flags."
            )

    def check_names(self, also_known: set[str]) -> None:
        """See `Worker`."""
        from ...parsers.native import sglang as native

        native.check_names(self.settings.names, also_known)

    @property
    def model_path(self) -> str:
        """See `Worker`."""
        path: str = self.config.server_args.model_path
        return path

    def post_processes(self) -> bool:
        """See `Worker`."""
        other = any(getattr(self.config.dynamo_args, kind) for kind in OTHER_WORKERS)
        return not other and self.config.serving_mode.value in ("agg", "decode")

    def install(self) -> None:
        """See `Worker`. The tokenizer and the parsers are tried at once: the model has been fetched."""
        self.build()
        patch("dynamo.sglang.register", "get_runtime_config", self._with_worker_card)
        patch(
            "dynamo.sglang.request_handlers",
            "DecodeWorkerHandler.generate",
            self.with_postprocessing,
        )
        for module, path in ENGINES:
            patch(module, path, with_running_request)

    def _with_worker_card(self, get_runtime_config: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(get_runtime_config)
        async def get(*args: Any, **kwargs: Any) -> Any:
            runtime_config = await get_runtime_config(*args, **kwargs)
            await self.advertise(runtime_config)
            return runtime_config

        return get

    def load(self) -> tuple[Any, ParserFactory, dict[str, Any]]:
        """See `Worker`."""
        server_args = self.config.server_args
        path = server_args.tokenizer_path or server_args.model_path
        options = pick_fields(server_args, TOKENIZER_OPTIONS)
        tokenizer = tokenizer_of(path, options)
        native = functools.partial(native_parsers, tokenizer, self.settings.names)
        parsers = choose_parsers(self.settings.parsers, self.settings.names, tokenizer, native)
        return tokenizer, parsers, {"path": path, "options": options}

    def run(
        self,
        start: Start,
        handler: Any,
        request_id: str,
        params: PostprocessParams,
        prompt: list[int],
    ) -> tuple[AsyncIterator[JsonDict], EngineRequestHandle]:
        """See `Worker`."""
        reasons = functools.partial(self._begins_in_reasoning, params, prompt)
        running = SglangRequestHandle(handler.engine.tokenizer_manager, params.n, reasons)
        return running.outputs(start), running

    def _begins_in_reasoning(self, params: PostprocessParams, prompt: list[int]) -> bool:
        parser = FallbackParser(
            self.parsers, params.parser, prompt, params.response_id, "degrade", self.metrics.report
        )
        return parser.in_reasoning


class SglangRequestHandle:
    """One request in SGLang's engine; see `flow.EngineRequestHandle`.

    tokenizer_manager: SGLang's, of the engine. reasons: whether the answer begins with reasoning.
    """

    def __init__(self, tokenizer_manager: Any, n: int, reasons: Callable[[], bool]) -> None:
        self._manager = tokenizer_manager
        self._n = n
        self._reasons = reasons
        self._ids: dict[int, str] = {}  # the engine's own, by choice

    async def outputs(self, start: Start) -> AsyncIterator[JsonDict]:
        """Yield the outputs of the handler that `start` starts, and learn of its request to the engine.

        Raises Dynamo's InvalidArgument for a request that SGLang refuses, as its own
        server does: with a ValueError, before it starts.
        """
        RUNNING.set(self)
        started = False
        try:
            async for output in start():
                started = True
                yield output
        except ValueError as error:
            from dynamo.llm.exceptions import InvalidArgument

            if started:
                raise
            raise InvalidArgument(str(error)) from error

    def start(self, arguments: dict[str, Any]) -> None:
        """Take note of the request to the engine, whose `arguments` may be changed.

        SGLang's grammars begin with the first token unless told that reasoning comes
        before them. Its own server and Dynamo's SGLang frontend say so; other frontends
        leave it to the engine, as vLLM does it.
        """
        parameters = arguments["sampling_params"]
        if any(parameters.get(grammar) for grammar in GRAMMARS) and self._reasons():
            arguments["require_reasoning"] = True
        if self._n == 1:
            self._ids[0] = arguments["rid"]

    def follow(self, stream: AsyncIterator[JsonDict]) -> AsyncIterator[JsonDict]:
        """Return the engine's outputs; with n > 1 a choice is a request of its own, whose name only they tell."""
        return stream if self._n == 1 else self._named(stream)

    async def _named(self, stream: AsyncIterator[JsonDict]) -> AsyncIterator[JsonDict]:
        async for output in stream:
            self._ids[output["index"]] = output["meta_info"]["id"]
            yield output

    async def abort(self, index: int) -> None:
        """End the work on a choice."""
        if index in self._ids:
            self._manager.abort_request(rid=self._ids[index])

    def set_stream_interval(self, index: int, tokens: int) -> None:
        """Wake whoever waits for the choice's outputs only when there are enough, or the last.

        The scheduler, which has an interval for each request, is another process and
        does not take a new one for a request that runs. What is spared here is what
        SGLang's and Dynamo's handlers do for an output in this process.
        """
        state = self._manager.rid_to_state.get(self._ids.get(index))
        if state is None:
            return
        event = state.event

        def set_when_enough() -> None:
            if state.finished:
                del event.set  # what is done with is not to hold on to itself
                event.set()
            elif len(state.out_list) >= MAX_COLLECTED or count_tokens(state.out_list) >= tokens:
                asyncio.Event.set(event)

        event.set = set_when_enough


def count_tokens(outputs: list[JsonDict]) -> int:
    """Return how many tokens there are in SGLang's `outputs`."""
    return sum(len(output["output_ids"]) for output in outputs)


RUNNING: ContextVar[SglangRequestHandle | None] = ContextVar("RUNNING", default=None)
"""The request that the running task is about to hand to the engine."""


def with_running_request(async_generate: Callable[..., Any]) -> Callable[..., Any]:
    """Return the engine's `async_generate`, telling the request about itself."""

    @functools.wraps(async_generate)
    async def generate(engine: Any, *args: Any, **kwargs: Any) -> AsyncIterator[JsonDict]:
        running = RUNNING.get()
        if running is not None:
            RUNNING.set(None)  # tasks that the engine starts for itself inherit it
            running.start(kwargs)
        stream: AsyncIterator[JsonDict] = await async_generate(engine, *args, **kwargs)
        return stream if running is None else running.follow(stream)

    return generate
