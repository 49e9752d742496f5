"""The adapter for Dynamo's TensorRT-LLM worker.

    python -m dynamo.trtllm --model M --trtllm-processing --tool-call-parser hermes
    python -m backedge.worker.trtllm ...    # the same, if torch loads no entry points

seams.py lists what it replaces and reads there.
"""

from __future__ import annotations

import argparse
import functools
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextvars import ContextVar
from typing import TYPE_CHECKING, TypeVar

import msgspec
from typing_extensions import override

from ...base.errors import SetupError, exiting
from ...base.json_types import JsonObject
from ...parsers.api import native_parsers
from ...parsers.base import ParserFactory, ParserNames
from ...parsers.passthrough import PassthroughParsers
from ...parsers.response_template import describing_name
from ...postprocess.engine_output import engine_error
from ...tokenization.model_files import read_vocabulary_size
from ...worker import flags
from ...worker.decoding import OtherTokenizer, choose_tokenizer
from ...worker.egress import send_all
from ...worker.engine_request import EngineRequestHandle
from ...worker.engine_support import EngineSupport
from ...worker.engine_worker import EngineModel, GenerateCall, choose_parsers
from ...worker.patched_worker import PatchedWorker
from . import seams

if TYPE_CHECKING:
    from dynamo.trtllm.args import Config
    from dynamo.trtllm.request_handlers.handler_base import HandlerBase
    from tensorrt_llm.executor.result import GenerationResult

T = TypeVar("T")

ENGINE = EngineSupport(
    "trtllm",
    "tensorrt-llm",
    seams.VERSIONS,
    seams.SEAMS,
    "dynamo.trtllm.workers.llm_worker:RequestHandlerConfig",
)
HANDLER = "dynamo.trtllm.request_handlers.handler_base:HandlerBase"
POOL_FLAG = "--postprocess-workers"
# Part of the error of a worker that has released its memory.
SLEEPING = "temporarily rejecting new requests"


def add_flags(add_arguments: Callable[..., None]) -> Callable[..., None]:
    """Wrap the method that adds Dynamo's flags of this worker to add ours."""

    @functools.wraps(add_arguments)
    def add_all(group: object, parser: argparse.ArgumentParser) -> None:
        add_arguments(group, parser)
        flags.add_flags(parser, "trtllm")

    return add_all


def enable_once(validate: Callable[..., None]) -> Callable[..., None]:
    """Wrap `validate` of Dynamo's configuration to enable post-processing for the first one.

    The configuration has all flags as attributes, including ours.
    """

    @functools.wraps(validate)
    def validate_and_enable(config: Config) -> None:
        ENGINE.replace("dynamo.trtllm.args:Config.validate", lambda _: validate)
        validate(config)
        arguments = argparse.Namespace(**vars(config))
        with exiting():
            flags.resolve_auto_names(arguments, "trtllm")
        TrtllmWorker.enable_by_flags(config, arguments)

    return validate_and_enable


def watch_arguments() -> None:
    """Add the flags to Dynamo's, and enable post-processing once they are parsed."""
    if not ENGINE.sees_flags(sys.argv):
        return
    from dynamo.trtllm.args import Config

    if not hasattr(Config.validate, "__wrapped__"):
        ENGINE.replace("dynamo.trtllm.args:DynamoTrtllmArgGroup.add_arguments", add_flags)
        ENGINE.replace("dynamo.trtllm.args:Config.validate", enable_once)


def load_tokenizer(path: str, *, trust_remote_code: bool) -> object:
    """Load TensorRT-LLM's tokenizer of the model, without its wrapper."""
    from tensorrt_llm.llmapi.tokenizer import tokenizer_factory

    tokenizer: object = tokenizer_factory(path, trust_remote_code=trust_remote_code)
    return getattr(tokenizer, "tokenizer", tokenizer)


def pool_parts(
    names: ParserNames,  # noqa: ARG001 - only descriptions, which have no names, are parsed there
    path: str,
    *,
    trust_remote_code: bool,
    other: OtherTokenizer | None,
) -> tuple[object, ParserFactory]:
    """Return the tokenizer for a pool process; runs in the fork server.

    TensorRT-LLM, which would start MPI there, is not imported: the tokenizer is the one of
    transformers that it wraps.
    """
    from transformers import AutoTokenizer

    own = functools.partial(
        AutoTokenizer.from_pretrained, path, trust_remote_code=trust_remote_code
    )
    return choose_tokenizer(other, own), PassthroughParsers()


class TrtllmWorker(PatchedWorker["Config", "HandlerBase"]):
    """A `dynamo.trtllm` worker that post-processes."""

    engine = ENGINE

    def __init__(self, config: Config, settings: flags.WorkerSettings) -> None:
        # A description's parser is transformers' own; the others need TensorRT-LLM.
        may_pool = bool(describing_name(settings.names))
        workers = settings.workers if may_pool else 0
        super().__init__(config, msgspec.structs.replace(settings, workers=workers))
        self._processes = settings.workers
        self._engine_args: JsonObject = {}
        self._vocabulary_size: int | None = None
        self._eos_token_ids: frozenset[int] = frozenset()

    @property
    @override
    def text_flag(self) -> str | None:
        return None

    @override
    def check_names(self, also_known: set[str]) -> None:
        if self._processes:
            raise SetupError(
                f"{POOL_FLAG} {self._processes}: TensorRT-LLM starts MPI when it is imported, "
                "which its parsers need, and a process with MPI must not be forked; set "
                f"{POOL_FLAG} 0, or choose linear parsers."
            )
        super().check_names(also_known)

    @property
    @override
    def model_path(self) -> str:
        return str(self.config.model)

    @override
    def post_processes(self) -> bool:
        generates = self.config.disaggregation_mode.value in ("prefill_and_decode", "decode")
        return generates and self.config.modality.value in ("text", "multimodal")

    @override
    def install_card(self) -> None:
        ENGINE.replace("dynamo.trtllm.workers.llm_worker:register_model", self.with_worker_card)

    @override
    def install(self) -> None:
        ENGINE.replace("dynamo.trtllm.workers.llm_worker:get_llm_engine", self.with_build)
        ENGINE.replace(f"{HANDLER}.generate_locally", self.with_postprocessing)
        if seams.EGRESS not in self.off:
            ENGINE.replace(
                "dynamo.trtllm.request_handlers.push_egress:drive_push_egress", lambda _: send_all
            )
        ENGINE.replace(f"{HANDLER}._cancellation_monitor", with_request_handle)

    @override
    def take_engine_arguments(self, arguments: JsonObject) -> None:
        self._engine_args = arguments

    @override
    def load(self) -> EngineModel:
        settings = self.settings
        arguments = self._engine_args
        source = {
            "path": arguments.get("tokenizer") or arguments["model"],
            "trust_remote_code": arguments.get("trust_remote_code", False),
        }
        other = self.other_tokenizer(**source)
        tokenizer = choose_tokenizer(other, functools.partial(load_tokenizer, **source))
        self._vocabulary_size = read_vocabulary_size(self._engine_args["model"])
        eos = getattr(tokenizer, "eos_token_id", None)
        self._eos_token_ids = frozenset(() if eos is None else (eos,))
        native = functools.partial(native_parsers, "trtllm", tokenizer, settings.names)
        parsers = choose_parsers(settings.parsers, settings.names, tokenizer, native)
        return EngineModel(tokenizer, parsers, {**source, "other": other})

    @override
    def find_vocabulary_size(self, handler: HandlerBase) -> int | None:
        return self._vocabulary_size

    @override
    def run(
        self, call: GenerateCall[HandlerBase]
    ) -> tuple[AsyncIterator[JsonObject], EngineRequestHandle]:
        ends = self._eos_token_ids.union(add_stop_tokens(call.request))
        handle = TrtllmRequestHandle(call.params.n, ends)
        return handle.outputs(call.start), handle


def add_stop_tokens(request: JsonObject) -> list[int]:
    """Return the request's stop tokens, after moving the client's to where the engine gets them.

    Dynamo's handler passes only the hidden stop tokens of a request to the engine.
    """
    stops = request["stop_conditions"] = request.get("stop_conditions") or {}
    hidden = stops.get("stop_token_ids_hidden") or []
    token_ids = list(dict.fromkeys((*hidden, *(stops.get("stop_token_ids") or ()))))
    if token_ids:
        stops["stop_token_ids_hidden"] = token_ids
    return [*token_ids, *(request.get("eos_token_ids") or ())]


class TrtllmRequestHandle(EngineRequestHandle):
    """One request in TensorRT-LLM's engine.

    ends: tokens that end a choice.
    """

    def __init__(self, n: int, ends: frozenset[int]) -> None:
        self._ends = ends
        self._generating = set(range(n))  # choices that the engine is generating
        self._wanted = set(range(n))  # choices that have not been aborted
        self.request: GenerationResult | None = None

    async def outputs(
        self, start: Callable[[], AsyncIterator[JsonObject]]
    ) -> AsyncIterator[JsonObject]:
        """Yield the outputs of `start`; in the meantime `with_request_handle` finds this handle.

        If the caller stops early, the engine's request ends. Raises Dynamo's InvalidArgument for a
        request that TensorRT-LLM rejects.
        """
        CURRENT_HANDLE.set(self)
        try:
            async for output in start():
                if (error := engine_error(output)) is not None:
                    self._generating.clear()
                    self._check_refusal(error)
                    yield output
                elif self._is_new(output):
                    for part in separate_end(output, self._ends):
                        yield part
        finally:
            self._wanted.clear()
            self._end_if_unwanted()

    def _check_refusal(self, error: str) -> None:
        """Raise InvalidArgument (HTTP 400) if the engine has rejected the request.

        Dynamo's handler then answers with an error before there is anything to monitor. It does
        the same while the worker sleeps, which is not the client's fault.
        """
        from dynamo.llm.exceptions import InvalidArgument

        if self.request is None and SLEEPING not in error:
            raise InvalidArgument(error.removeprefix("error: "))

    def _is_new(self, output: JsonObject) -> bool:
        """Note the end of a choice; return whether the output has news.

        With each output of a choice, Dynamo's handler repeats the ends of the others.
        """
        index, ended = output.get("index") or 0, output.get("finish_reason") is not None
        if index not in self._generating:
            return False
        if ended:
            self._generating.discard(index)
            self._end_if_unwanted()
        return ended or bool(output.get("token_ids"))

    @override
    async def abort(self, index: int) -> None:
        self._wanted.discard(index)
        self._end_if_unwanted()

    def _end_if_unwanted(self) -> None:
        """End the engine's request, which has all choices, once all are aborted."""
        if self.request is not None and self._generating and not self._generating & self._wanted:
            self._generating.clear()
            self.request.abort()

    @override
    def set_stream_interval(self, index: int, tokens: int) -> None:
        # TensorRT-LLM has one interval for all requests, set when it starts.
        pass


def separate_end(output: JsonObject, ends: frozenset[int]) -> Iterator[JsonObject]:
    """Split an output of Dynamo's handler so that the token that ended the choice is the last.

    Post-processing takes the last token of a choice that ended with "stop" as the one that ended
    it, as with the other engines. TensorRT-LLM removes a stop token from the output and reports
    it as the stop_reason.

    ends: the tokens that end a choice.
    """
    token_ids = output.get("token_ids")
    if output.get("finish_reason") != "stop" or token_ids is None:
        yield output
        return
    reason = output.get("stop_reason")
    if isinstance(reason, int) and (not token_ids or token_ids[-1] != reason):
        yield from _separate(output, [reason])
    elif token_ids and token_ids[-1] not in ends:
        yield from _separate(output, [])
    else:
        yield output


def _separate(output: JsonObject, end: list[int]) -> Iterator[JsonObject]:
    """Yield the tokens of `output`, if any, and then its end with the tokens `end`."""
    index = output.get("index") or 0
    of_tokens = ("token_ids", "log_probs", "top_logprobs")
    if output["token_ids"]:
        tokens = {name: output[name] for name in of_tokens if name in output}
        yield {"index": index, **tokens}
    rest = {name: value for name, value in output.items() if name not in of_tokens}
    yield {**rest, "index": index, "token_ids": end}


CURRENT_HANDLE: ContextVar[TrtllmRequestHandle | None] = ContextVar("CURRENT_HANDLE", default=None)
"""The handle of the request that the running task is about to pass to the engine."""


def with_request_handle(monitor: Callable[..., T]) -> Callable[..., T]:
    """Wrap Dynamo's monitor of a request to show the request's handle what it can abort.

    With disaggregated prefill that is not the engine's request but Dynamo's guard, which waits
    for the transfer of the KV cache.
    """

    @functools.wraps(monitor)
    def monitor_with_handle(
        handler: HandlerBase, generation_result: GenerationResult, *args: object, **kwargs: object
    ) -> T:
        handle = CURRENT_HANDLE.get()
        if handle is not None:
            handle.request = generation_result
        return monitor(handler, generation_result, *args, **kwargs)

    return monitor_with_handle


WORKER = TrtllmWorker
