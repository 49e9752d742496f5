"""The adapter for Dynamo's SGLang worker.

    python -m dynamo.sglang --model M --sglang-processing --tool-call-parser qwen25
    python -m backedge.worker.sglang ...    # the same, if SGLang skips the entry point

seams.py lists what it replaces and reads there.
"""

from __future__ import annotations

import argparse
import asyncio
import functools
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence, Sized
from contextvars import ContextVar
from typing import TYPE_CHECKING, TypeVar

from typing_extensions import override

from ...base.errors import exiting
from ...base.json_types import JsonObject
from ...parsers.api import native_parsers
from ...parsers.base import ParserFactory, ParserNames
from ...postprocess.postprocessor import starts_in_reasoning
from ...tokenization.detokenizer import DetokenizerFactory, DetokenizerOptions
from ...tokenization.tokenizer_selection import ModelRuntimeConfig
from ...worker import flags
from ...worker.decoding import DecodeToken, NativeDetokenizers, OtherTokenizer, choose_tokenizer
from ...worker.engine_request import EngineRequestHandle
from ...worker.engine_support import EngineSupport, pick_fields
from ...worker.engine_worker import (
    EngineModel,
    GenerateCall,
    choose_parsers,
    name_parsers_in_rust,
)
from ...worker.patched_worker import PatchedWorker
from . import seams

if TYPE_CHECKING:
    from dynamo.sglang.args import Config
    from dynamo.sglang.request_handlers import DecodeWorkerHandler
    from sglang.srt.entrypoints.engine import Engine
    from sglang.srt.managers.tokenizer_manager import TokenizerManager

ConfigT = TypeVar("ConfigT", bound=ModelRuntimeConfig | None)
AsyncGenerate = Callable[..., Awaitable[AsyncIterator[JsonObject]]]
"""`Engine.async_generate`: (engine, prompt, sampling_params, ..., rid=...) to its outputs."""

# SGLang's ServerArgs that affect the tokenizer besides its path. Not the backend: ours are
# faster.
TOKENIZER_OPTIONS = ("tokenizer_mode", "trust_remote_code", "revision")
# Dynamo's flags for workers that answer no chats, or have their own handlers.
OTHER_WORKERS = tuple(
    "image_diffusion_worker video_generation_worker rerank_worker embedding_worker "
    "multimodal_encode_worker multimodal_worker diffusion_worker".split()
)
ENGINE = EngineSupport(
    "sglang", "sglang", seams.VERSIONS, seams.SEAMS, "dynamo.sglang.init_llm:setup_sgl_metrics"
)
GRAMMARS = ("json_schema", "regex", "ebnf", "structural_tag")
# SGLang logs a warning for each delivery of 20 or more delayed outputs.
MAX_DELIVERED_OUTPUTS = 19


def watch_arguments(parser: argparse.ArgumentParser) -> None:
    """Enable post-processing once `parser` has parsed a command line with --sglang-processing.

    parser: with SGLang's flags. Later code does not see ours: SGLang's own record drops them.
    """
    if not ENGINE.sees_flags(sys.argv):
        return
    parse: Callable[..., argparse.Namespace] = parser.parse_args

    @functools.wraps(parse)
    def parse_and_enable(*args: object, **kwargs: object) -> argparse.Namespace:
        arguments = parse(*args, **kwargs)
        with exiting():
            flags.resolve_auto_names(arguments, "sglang")
            settings = flags.read_settings(arguments, "sglang")
            flags.keep_engine_choices(arguments)
            if settings is None:
                return arguments
            ENGINE.check_versions()
        ENGINE.replace(
            "dynamo.sglang.args:Config.__init__", functools.partial(enable_once, settings)
        )
        return arguments

    parser.parse_args = parse_and_enable  # type: ignore[method-assign, assignment]  # of this one


def enable_once(settings: flags.WorkerSettings, init: Callable[..., None]) -> Callable[..., None]:
    """Wrap `__init__` of Dynamo's configuration to enable post-processing for the first one."""

    @functools.wraps(init)
    def initialize(config: Config, *args: object, **kwargs: object) -> None:
        ENGINE.replace("dynamo.sglang.args:Config.__init__", lambda _: init)
        init(config, *args, **kwargs)
        with exiting():
            SglangWorker.enable(config, settings)

    return initialize


def check_config(own: argparse.Namespace, _: argparse.Namespace) -> None:
    """Check Dynamo's own flags. Raises as Dynamo."""
    from dynamo.sglang.args import DynamoConfig

    DynamoConfig.from_cli_args(own).validate()


def load_tokenizer(path: str, options: JsonObject) -> object:
    """Load SGLang's tokenizer. options: the `TOKENIZER_OPTIONS`."""
    from sglang.srt.utils.hf_transformers_utils import get_tokenizer

    tokenizer: object = get_tokenizer(path, **options)
    return tokenizer


def read_tokenizer(path: str, *, trust_remote_code: bool) -> object:
    """Load the tokenizer as SGLang does, for the workers of other engines."""
    return load_tokenizer(path, {"trust_remote_code": trust_remote_code})


def pool_parts(
    names: ParserNames, path: str, options: JsonObject, other: OtherTokenizer | None
) -> tuple[object, ParserFactory]:
    """Return tokenizer and parsers for a pool process; runs in the fork server.

    path, options: as for `load_tokenizer`. other: replaces SGLang's tokenizer.
    """
    own = functools.partial(load_tokenizer, path, options)
    tokenizer = choose_tokenizer(other, own)
    return tokenizer, native_parsers("sglang", tokenizer, names)


def native_detokenizers(tokenizer: object) -> DetokenizerFactory:
    """Return SGLang's own incremental detokenizers: the steps of its `DetokenizerManager`.

    SGLang has one manager per process, with a state for each request; here each choice has its
    own, without its sockets.
    """
    from sglang.srt.managers.detokenizer_manager import DetokenizerManager
    from sglang.srt.managers.schedule_batch import INIT_INCREMENTAL_DETOKENIZATION_OFFSET

    sized: Sized | None = tokenizer if isinstance(tokenizer, Sized) else None
    size = getattr(tokenizer, "vocab_size", None) if sized is None else len(sized)

    def start(options: DetokenizerOptions, prompt_token_ids: Sequence[int]) -> DecodeToken:
        manager = DetokenizerManager.__new__(DetokenizerManager)
        vars(manager).update(tokenizer=tokenizer, vocab_size=size, decode_status={})
        vars(manager).update(disable_tokenizer_batch_decode=False)
        waiting = list(prompt_token_ids[-INIT_INCREMENTAL_DETOKENIZATION_OFFSET:])
        batch = BatchOfOne(options, len(waiting))

        def step(token_id: int) -> str:
            batch.decode_ids = [[*waiting, token_id]]
            waiting.clear()
            [text] = manager._decode_batch_token_id_output(batch)  # noqa: SLF001 - no public way
            return str(text)

        return step

    return NativeDetokenizers(tokenizer, start)


class BatchOfOne:
    """The parts of SGLang's `BatchTokenIDOutput` for one request that determine its text.

    context: number of prompt tokens before the first token.
    """

    def __init__(self, options: DetokenizerOptions, context: int) -> None:
        self.rids = [""]
        self.decoded_texts = [""]
        self.decode_ids: list[list[int]] = [[]]
        self.read_offsets = [context]
        self.finished_reasons = [None]
        self.no_stop_trim = [False]
        self.skip_special_tokens = [options.skip_special_tokens]
        self.spaces_between_special_tokens = [options.spaces_between_special_tokens]


class SglangWorker(PatchedWorker["Config", "DecodeWorkerHandler"]):
    """A `dynamo.sglang` worker that post-processes."""

    engine = ENGINE

    @property
    @override
    def text_flag(self) -> str | None:
        return "--use-sglang-tokenizer" if self.config.dynamo_args.use_sglang_tokenizer else None

    @property
    @override
    def model_path(self) -> str:
        return str(self.config.server_args.model_path)

    @property
    @override
    def parsers_in_rust(self) -> ParserNames:
        return name_parsers_in_rust(self.config.dynamo_args)

    @property
    @override
    def grammar_waits(self) -> bool:
        # The engine's flag has no name that only Backedge knows.
        return not self.settings.names.reasoning or bool(self.config.server_args.reasoning_parser)

    @override
    def post_processes(self) -> bool:
        other = any(getattr(self.config.dynamo_args, kind) for kind in OTHER_WORKERS)
        return not other and self.config.serving_mode.value in ("agg", "decode")

    @override
    def install_card(self) -> None:
        ENGINE.replace("dynamo.sglang.register:get_runtime_config", self._with_worker_card)

    @override
    def install(self) -> None:
        self.build()  # at once: the model's files have been downloaded
        ENGINE.replace(
            "dynamo.sglang.request_handlers:DecodeWorkerHandler.generate", self.with_postprocessing
        )
        # The second replaces the first in a process that shares another one's engine.
        ENGINE.replace("sglang.srt.entrypoints.engine:Engine.async_generate", with_request_handle)
        ENGINE.replace("dynamo.sglang.gateway:GatewayEngine.async_generate", with_request_handle)

    def _with_worker_card(
        self, get_runtime_config: Callable[..., Awaitable[ConfigT]]
    ) -> Callable[..., Awaitable[ConfigT]]:
        @functools.wraps(get_runtime_config)
        async def get_and_advertise(*args: object, **kwargs: object) -> ConfigT:
            runtime_config = await get_runtime_config(*args, **kwargs)
            await self.publish_worker_card(runtime_config)
            return runtime_config

        return get_and_advertise

    @override
    def load(self) -> EngineModel:
        server_args, settings = self.config.server_args, self.settings
        path = server_args.tokenizer_path or server_args.model_path
        options = pick_fields(server_args, TOKENIZER_OPTIONS)
        other = self.other_tokenizer(path, trust_remote_code=options["trust_remote_code"])
        own = functools.partial(load_tokenizer, path, options)
        tokenizer = choose_tokenizer(other, own)
        native = functools.partial(native_parsers, "sglang", tokenizer, settings.names)
        parsers = choose_parsers(settings.parsers, settings.names, tokenizer, native)
        return EngineModel(tokenizer, parsers, {"path": path, "options": options, "other": other})

    @override
    def find_vocabulary_size(self, handler: DecodeWorkerHandler) -> int | None:
        # A process that shares another one's engine has no model configuration.
        config = getattr(handler.engine.tokenizer_manager, "model_config", None)
        return None if config is None else int(config.vocab_size)

    @override
    def run(
        self, call: GenerateCall[DecodeWorkerHandler]
    ) -> tuple[AsyncIterator[JsonObject], EngineRequestHandle]:
        manager, params = call.handler.engine.tokenizer_manager, call.params
        reasons: Callable[[], bool] = functools.partial(
            starts_in_reasoning, params, self.parsers, call.token_ids, self.metrics.report
        )
        # Such a frontend tells the engine itself; and a call that is generated again is no thought.
        if call.is_stock or call.request.get("reasoning_ended"):
            reasons = bool  # False
        groups = seams.GROUPS not in self.off
        handle = SglangRequestHandle(manager, params.n, reasons, groups=groups)
        return handle.outputs(call.start), handle


class SglangRequestHandle(EngineRequestHandle):
    """One request in SGLang's engine.

    reasons: whether the answer begins with reasoning; called if a grammar constrains it.
    groups: its tokens may be sent in groups.
    """

    def __init__(
        self,
        manager: TokenizerManager,
        n: int,
        reasons: Callable[[], bool],
        *,
        groups: bool = True,
    ) -> None:
        self._manager = manager
        self._n = n
        self._reasons = reasons
        self._groups = groups
        self._ids: dict[int, str] = {}  # the engine's own, by choice

    async def outputs(
        self, start: Callable[[], AsyncIterator[JsonObject]]
    ) -> AsyncIterator[JsonObject]:
        """Yield the outputs of `start`; in the meantime `with_request_handle` finds this handle.

        Raises Dynamo's InvalidArgument for a request that SGLang rejects (by a ValueError before
        the first output).
        """
        CURRENT_HANDLE.set(self)
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

    def prepare(self, arguments: JsonObject) -> None:
        """Read the engine's `arguments`, and set `require_reasoning` there if needed.

        SGLang's grammars begin with the first token unless told that reasoning comes first.
        Its own server and Dynamo's SGLang frontend do so; other frontends leave it to the
        engine, because vLLM finds out by itself.
        """
        parameters = arguments["sampling_params"]
        if any(parameters.get(grammar) for grammar in GRAMMARS) and self._reasons():
            arguments["require_reasoning"] = True
        if self._n == 1:
            self._ids[0] = arguments["rid"]

    def follow(self, stream: AsyncIterator[JsonObject]) -> AsyncIterator[JsonObject]:
        """Return the engine's outputs, reading the ids of the choices from them.

        With n > 1 each choice is a separate request, whose id appears only there.
        """
        return stream if self._n == 1 else self._read_ids(stream)

    async def _read_ids(self, stream: AsyncIterator[JsonObject]) -> AsyncIterator[JsonObject]:
        async for output in stream:
            self._ids[output["index"]] = output["meta_info"]["id"]
            yield output

    @override
    async def abort(self, index: int) -> None:
        if index in self._ids:
            self._manager.abort_request(rid=self._ids[index])

    @override
    def set_stream_interval(self, index: int, tokens: int) -> None:
        # A running request's interval cannot be changed in the scheduler. So the outputs arrive
        # one by one, but their reader is woken only for a group or the last output, which saves
        # the cost of each delivery in SGLang's and Dynamo's handlers.
        if not self._groups:
            return
        state = self._manager.rid_to_state.get(self._ids.get(index, ""))
        if state is None:
            return
        event = state.event

        def set_when_enough() -> None:
            if state.finished:
                del event.set  # otherwise the finished request refers to itself
                event.set()
            elif (
                len(state.out_list) >= MAX_DELIVERED_OUTPUTS
                or count_tokens(state.out_list) >= tokens
            ):
                asyncio.Event.set(event)

        event.set = set_when_enough


def count_tokens(outputs: list[JsonObject]) -> int:
    """Return the number of tokens in SGLang's `outputs`."""
    return sum(len(output["output_ids"]) for output in outputs)


CURRENT_HANDLE: ContextVar[SglangRequestHandle | None] = ContextVar("CURRENT_HANDLE", default=None)
"""The handle of the request that the running task is about to pass to the engine."""


def with_request_handle(async_generate: AsyncGenerate) -> AsyncGenerate:
    """Wrap the engine's `async_generate` to show the request's handle its input and output."""

    @functools.wraps(async_generate)
    async def generate(
        engine: Engine, *args: object, **kwargs: object
    ) -> AsyncIterator[JsonObject]:
        handle = CURRENT_HANDLE.get()
        if handle is not None:
            CURRENT_HANDLE.set(None)  # tasks that the engine starts for itself inherit it
            handle.prepare(kwargs)
        stream = await async_generate(engine, *args, **kwargs)
        return stream if handle is None else handle.follow(stream)

    return generate


WORKER = SglangWorker
