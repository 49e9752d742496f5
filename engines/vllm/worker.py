"""The adapter for Dynamo's vLLM worker; seams.py lists what it replaces and reads there."""

from __future__ import annotations

import argparse
import functools
import inspect
import sys
import uuid
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, cast

from typing_extensions import override

from ...base.engines import load_native_parsers
from ...base.errors import REASONING_FLAG, exiting
from ...base.json_types import JsonObject
from ...parsers.api import native_parsers
from ...parsers.base import ParserFactory, ParserNames
from ...parsers.parser_lookup import Kind, reasoning_format
from ...parsers.response_template import PREFIX
from ...templates.auto_parsers import name_for_engine
from ...tokenization.detokenizer import DetokenizerFactory, DetokenizerOptions
from ...tokenization.model_files import needs_mistral
from ...tokenization.tokenizer_selection import MISTRAL_MODE
from ...worker import flags
from ...worker.decoding import DecodeToken, NativeDetokenizers, OtherTokenizer, choose_tokenizer
from ...worker.engine_request import EngineRequestHandle
from ...worker.engine_support import EngineSupport, pick_fields
from ...worker.engine_worker import EngineModel, GenerateCall, choose_parsers
from ...worker.patched_worker import PatchedWorker
from ..dynamo.contexts import stop_together
from ..dynamo.types import WorkerContext
from . import seams

if TYPE_CHECKING:
    from dynamo.vllm.args import Config
    from dynamo.vllm.handlers import DecodeWorkerHandler
    from vllm import AsyncEngineArgs
    from vllm.v1.engine.async_llm import AsyncLLM

# vLLM's EngineArgs that affect the tokenizer and the parsers.
MODEL_ARGUMENTS = tuple(
    "model hf_config_path config_format revision code_revision trust_remote_code tokenizer "
    "tokenizer_mode tokenizer_revision max_model_len".split()
)
# vLLM's flag --tokenizer-mode; a frontend finds these by itself.
USUAL_MODES = ("auto", "hf", "slow")
ENGINE = EngineSupport(
    "vllm", "vllm", seams.VERSIONS, seams.SEAMS, "dynamo.vllm.main:setup_metrics_collection"
)


def watch_arguments() -> None:
    """Enable post-processing once Dynamo's worker has parsed a command line that asks for it.

    Dynamo passes both its own configuration and vLLM's raw arguments through
    `_build_config`; later code does not see our flags.
    """
    if ENGINE.sees_flags(sys.argv):
        ENGINE.replace("dynamo.vllm.args:_build_config", enable_once_built)


def enable_once_built(build_config: Callable[..., Config]) -> Callable[..., Config]:
    """Wrap Dynamo's `_build_config` to enable post-processing for its result."""

    @functools.wraps(build_config)
    def build_and_enable(dynamo_config: object, arguments: argparse.Namespace) -> Config:
        template = getattr(dynamo_config, "custom_jinja_template", None)
        with exiting():
            if arguments.vllm_processing:
                ENGINE.check_versions()
                load_native_parsers("vllm")  # the flags are checked by their names
            flags.resolve_auto_names(arguments, "vllm", template)
        engines = engine_part(arguments) if arguments.vllm_processing else arguments
        config = build_config(dynamo_config, engines)
        VllmWorker.enable_by_flags(config, arguments)
        return config

    return build_and_enable


def check_config(own: argparse.Namespace, arguments: argparse.Namespace) -> None:
    """Build Dynamo's configuration, which checks its own flags and vLLM's. Raises as Dynamo."""
    from dynamo.vllm import args

    config = args.Config.from_cli_args(own)
    config.model = arguments.model
    build_config = args._build_config  # noqa: SLF001 - no public way checks the flags alone
    inspect.unwrap(build_config)(config, engine_part(arguments))


def engine_part(arguments: argparse.Namespace) -> argparse.Namespace:
    """Return the flags for vLLM, with its own name of the reasoning parser if it has one.

    vLLM, which applies grammars after the reasoning, rejects a name that only Backedge knows.
    An unknown name is kept, so that vLLM rejects it.
    """
    name = getattr(arguments, "reasoning_parser", None)
    format_ = reasoning_format(name) if name else None
    known: Collection[str] = load_native_parsers("vllm").known_names(REASONING_FLAG)
    is_described = name is not None and name.startswith(PREFIX)
    if (format_ is None and not is_described) or name in known:
        return arguments
    engines = "" if format_ is None else name_for_engine(format_, known)
    own = engines if engines in known else ""
    return argparse.Namespace(**{**vars(arguments), "reasoning_parser": own})


def build_parsers(
    kind: Kind, names: ParserNames, tokenizer: object, model_config: object = None
) -> ParserFactory:
    """Build the parsers of this kind and these names for vLLM's `tokenizer`.

    Raises as `choose_parsers`.
    """
    native = functools.partial(native_parsers, "vllm", tokenizer, names, model_config)
    return choose_parsers(kind, names, tokenizer, native)


def pool_parts(
    names: ParserNames, model: JsonObject, plugin: str | None, other: OtherTokenizer | None
) -> tuple[object, ParserFactory]:
    """Return tokenizer and parsers for a pool process; runs in the fork server.

    model: the `MODEL_ARGUMENTS`. plugin: file that registers a tool parser. other: as for
        `load_tokenizer`.
    """
    from vllm.engine.arg_utils import EngineArgs
    from vllm.plugins import load_general_plugins

    load_general_plugins()
    if plugin:
        load_native_parsers("vllm").load_tool_parser_plugin(plugin)
    tokenizer, model_config = load_tokenizer(EngineArgs(**model), other)
    return tokenizer, native_parsers("vllm", tokenizer, names, model_config)


def load_tokenizer(
    engine_args: AsyncEngineArgs, other: OtherTokenizer | None = None
) -> tuple[object, object]:
    """Load vLLM's tokenizer, or an `other` one, and vLLM's ModelConfig."""
    from vllm.tokenizers import cached_tokenizer_from_config

    model_config = engine_args.create_model_config()
    own = functools.partial(cached_tokenizer_from_config, model_config)
    return choose_tokenizer(other, own), model_config


def read_tokenizer(path: str, *, trust_remote_code: bool) -> object:
    """Load the tokenizer as vLLM does, for the workers of other engines."""
    from vllm.tokenizers import get_tokenizer

    mode = MISTRAL_MODE if needs_mistral(Path(path)) else "auto"
    tokenizer: object = get_tokenizer(
        path, tokenizer_mode=mode, trust_remote_code=trust_remote_code
    )
    return tokenizer


def native_detokenizers(tokenizer: object) -> DetokenizerFactory:
    """Return vLLM's own incremental detokenizers, built as in its `OutputProcessor`."""
    from vllm.sampling_params import SamplingParams
    from vllm.v1.engine import EngineCoreRequest
    from vllm.v1.engine.detokenizer import IncrementalDetokenizer

    def start(options: DetokenizerOptions, prompt_token_ids: Sequence[int]) -> DecodeToken:
        request = EngineCoreRequest(
            request_id="",
            prompt_token_ids=list(prompt_token_ids),
            mm_features=None,
            sampling_params=SamplingParams(
                skip_special_tokens=options.skip_special_tokens,
                spaces_between_special_tokens=options.spaces_between_special_tokens,
            ),
            pooling_params=None,
            arrival_time=0.0,
            lora_request=None,
            cache_salt=None,
            data_parallel_rank=None,
        )
        detokenizer = IncrementalDetokenizer.from_new_request(tokenizer, request)

        def step(token_id: int) -> str:
            detokenizer.update([token_id], stop_terminated=False)
            text: str = detokenizer.get_next_output_text(finished=False, delta=True)
            return text

        return step

    return NativeDetokenizers(tokenizer, start)


class VllmWorker(PatchedWorker["Config", "DecodeWorkerHandler"]):
    """A `dynamo.vllm` worker that post-processes."""

    engine = ENGINE

    @property
    @override
    def text_flag(self) -> str | None:
        return "--use-vllm-tokenizer" if self.config.use_vllm_tokenizer else None

    @override
    def load_plugins(self) -> None:
        if path := self.settings.tool_parser_plugin:
            load_native_parsers("vllm").load_tool_parser_plugin(path)

    @property
    @override
    def model_path(self) -> str:
        return str(self.config.engine_args.model)

    @property
    @override
    def tokenizer_mode(self) -> str | None:
        mode = str(self.config.engine_args.tokenizer_mode)
        return super().tokenizer_mode if mode in USUAL_MODES else mode

    @property
    @override
    def config_format(self) -> str | None:
        name = str(self.config.engine_args.config_format)
        return None if name == "auto" else name

    @override
    def post_processes(self) -> bool:
        config = self.config
        other = config.embedding_worker or config.classify_worker or config.headless
        return not other and config.disaggregation_mode.value in ("agg", "decode")

    @override
    def install_card(self) -> None:
        ENGINE.replace("dynamo.vllm.main:register_model", self.with_worker_card)
        if seams.ADAPTERS not in self.off:
            ENGINE.replace("dynamo.vllm.handlers:register_model", self.with_worker_card)

    @override
    def install(self) -> None:
        ENGINE.replace("dynamo.vllm.main:setup_vllm_engine", self.with_build)
        ENGINE.replace(
            "dynamo.vllm.handlers:DecodeWorkerHandler.generate", self.with_postprocessing
        )

    @override
    def load(self) -> EngineModel:
        engine_args, settings = self.config.engine_args, self.settings
        path = engine_args.tokenizer or engine_args.model
        other = self.other_tokenizer(path, trust_remote_code=engine_args.trust_remote_code)
        tokenizer, model_config = load_tokenizer(engine_args, other)
        parsers = build_parsers(settings.parsers, settings.names, tokenizer, model_config)
        model = pick_fields(engine_args, MODEL_ARGUMENTS)
        arguments = {"model": model, "plugin": settings.tool_parser_plugin, "other": other}
        return EngineModel(tokenizer, parsers, arguments)

    @override
    def find_vocabulary_size(self, handler: DecodeWorkerHandler) -> int | None:
        return int(handler.engine_client.model_config.get_vocab_size())

    @override
    def run(
        self, call: GenerateCall[DecodeWorkerHandler]
    ) -> tuple[AsyncIterator[JsonObject], EngineRequestHandle]:
        engine, request_id = call.handler.engine_client, call.context.id()
        # With --enable-rl, the route `abort_request` names requests by the client's id.
        is_taken = request_id in engine.output_processor.external_req_ids
        if is_taken and not self.config.enable_rl:
            return self._run_apart(call)
        groups = seams.GROUPS not in self.off
        return call.start(), VllmRequestHandle(engine, request_id, call.params.n, groups=groups)

    def _run_apart(
        self, call: GenerateCall[DecodeWorkerHandler]
    ) -> tuple[AsyncIterator[JsonObject], EngineRequestHandle]:
        """Run a request whose id, which a client chose, is that of a running one.

        vLLM ends requests by that id, and would end both.
        """
        whole = cast(WorkerContext, call.context)
        own = whole.detached(f"{whole.id()}-{uuid.uuid4().hex[:8]}")
        outputs, handle = self.run(call._replace(context=own))
        return stop_together(outputs, whole, own), handle


class VllmRequestHandle(EngineRequestHandle):
    """One request in vLLM's engine. groups: its tokens may be sent in groups."""

    def __init__(self, engine: AsyncLLM, request_id: str, n: int, *, groups: bool = True) -> None:
        self._engine = engine
        self._request_id = request_id
        self._n = n
        self._groups = groups

    @override
    async def abort(self, index: int) -> None:
        if self._n == 1:
            await self._engine.abort(self._request_id)
        else:
            await self._engine.abort(self._internal_ids(index), internal=True)

    @override
    def set_stream_interval(self, index: int, tokens: int) -> None:
        # `RequestState.make_request_output` skips outputs by the request's own interval, which
        # is initially the engine's. It counts from `sent_tokens_offset`, which it updates only
        # while it skips.
        for internal_id in self._internal_ids(index) if self._groups else ():
            state = self._engine.output_processor.request_states.get(internal_id)
            if state is None:
                continue
            interval = max(tokens, self._engine.output_processor.stream_interval)
            generated = state.detokenizer.num_output_tokens()
            if state.stream_interval == 1:
                state.sent_tokens_offset = generated
            elif interval == 1 and state.sent_tokens_offset < generated:
                interval = 2  # tokens are waiting, which an interval of 1 would lose
            state.stream_interval = interval

    def _internal_ids(self, index: int) -> list[str]:
        """Return the engine's own ids of a choice.

        With n > 1 each choice is a separate request, with its index before the id.
        Source: vllm/v1/engine/parallel_sampling.py, `ParentRequest.get_child_info`.
        """
        running = self._engine.output_processor.external_req_ids.get(self._request_id, ())
        return [
            internal_id
            for internal_id in running
            if self._n == 1 or internal_id.startswith(f"{index}_")
        ]


WORKER = VllmWorker
