"""The adapter for Dynamo's vLLM worker: all that Backedge knows of `dynamo.vllm`.

Seams, each checked before it is used: `dynamo.vllm.args._build_config` (the parsed
flags), `dynamo.vllm.main.setup_vllm_engine` (the last moment before the engine
loads), `register_model` (the model card) and `DecodeWorkerHandler.generate`.
"""

from __future__ import annotations

import argparse
import functools
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

from ...parsers.base import ParserFactory, ParserNames
from ...parsers.errors import SetupError
from ...parsers.native import vllm as native
from ...parsers.parser_lookup import Kind
from ...postprocess.engine_output import JsonDict
from ...postprocess.messages import PostprocessParams
from .. import flags
from ..request_stream import EngineRequestHandle
from .base import EngineSupport, Start, Worker, choose_parsers, patch, pick_fields

# Of vLLM's EngineArgs, what decides about tokenizer and parsers.
MODEL_ARGUMENTS = (
    *("model", "hf_config_path", "config_format", "revision", "code_revision", "trust_remote_code"),
    *("tokenizer", "tokenizer_mode", "tokenizer_revision", "max_model_len"),
)
ENGINE = EngineSupport(
    name="vllm",
    version="0.31",
    patch_points=(
        ("dynamo.vllm.main", "setup_vllm_engine", ("config",)),
        ("dynamo.vllm.main", "setup_metrics_collection", ("config", "generate_endpoint", "logger")),
        ("dynamo.vllm.main", "register_model", ()),
        ("dynamo.vllm.handlers", "register_model", ()),
        ("dynamo.vllm.handlers", "DecodeWorkerHandler.generate", ("self", "request", "context")),
        (
            "vllm.v1.engine.output_processor",
            "RequestState.make_request_output",
            ("self", "new_token_ids"),
        ),
    ),
    metrics=("dynamo.vllm.main", "setup_metrics_collection"),
)


def watch_arguments() -> None:
    """Act when Dynamo's worker has parsed a command line with --vllm-processing.

    Dynamo passes both its own configuration and vLLM's raw arguments through
    `_build_config`; nothing later has seen our flags.
    """
    from dynamo.vllm import args

    build_config = getattr(args, "_build_config", None)
    if build_config is None:
        ENGINE.exit_on_setup_error(check_flags_can_be_seen)(sys.argv)
        return

    @functools.wraps(build_config)
    def built(dynamo_config: Any, vllm_arguments: argparse.Namespace) -> Any:
        config = build_config(dynamo_config, vllm_arguments)
        settings = ENGINE.exit_on_setup_error(flags.settings)(vllm_arguments, "vllm")
        if settings is not None:
            ENGINE.exit_on_setup_error(VllmWorker.enable)(config, settings)
        return config

    args._build_config = built  # noqa: SLF001


def check_flags_can_be_seen(arguments: Sequence[str]) -> None:
    """Raise `SetupError` if the flag is there, for a Dynamo in which nothing would see it."""
    if not set(flags.enabling_flags("vllm")).isdisjoint(arguments):
        ENGINE.check_versions()
        raise SetupError(
            "dynamo.vllm.args is not what Backedge expects; install ai-dynamo as published."
        )


def build_parsers(
    kind: Kind, names: ParserNames, tokenizer: Any, model_config: Any = None
) -> ParserFactory:
    """Return the parsers of this kind and these names for vLLM's `tokenizer`; see `choose_parsers`."""
    return choose_parsers(
        kind, names, tokenizer, lambda: native.VllmParsers(tokenizer, names, model_config)
    )


def pool_parts(
    names: ParserNames, model: dict[str, Any], plugin: str | None
) -> tuple[Any, ParserFactory]:
    """Return the tokenizer and the parsers of a process of the pool; called in one. model: the `MODEL_ARGUMENTS`."""
    from vllm.engine.arg_utils import EngineArgs
    from vllm.plugins import load_general_plugins

    load_general_plugins()
    if plugin:
        native.load_tool_parser_plugin(plugin)
    tokenizer, model_config = tokenizer_of(EngineArgs(**model))
    return tokenizer, native.VllmParsers(tokenizer, names, model_config)


def tokenizer_of(engine_args: Any) -> tuple[Any, Any]:
    """Return vLLM's tokenizer and its ModelConfig."""
    from vllm.tokenizers import cached_tokenizer_from_config

    model_config = engine_args.create_model_config()
    return cached_tokenizer_from_config(model_config), model_config


class VllmWorker(Worker):
    """See `Worker`."""

    engine = ENGINE

    def check_config(self) -> None:
        """See `Worker`."""
        if self.config.use_vllm_tokenizer:
            raise SetupError(
                "--use-vllm-tokenizer makes the worker answer with text, so there are no tokens to post-process; "
                "drop one of the two flags."
            )
        if self.settings.tool_parser_plugin:
            native.load_tool_parser_plugin(self.settings.tool_parser_plugin)

    def check_names(self, also_known: set[str]) -> None:
        """See `Worker`."""
        native.check_names(self.settings.names, also_known)

    @property
    def model_path(self) -> str:
        """See `Worker`."""
        path: str = self.config.engine_args.model
        return path

    def post_processes(self) -> bool:
        """See `Worker`."""
        config = self.config
        other = config.embedding_worker or config.classify_worker or config.headless
        return not other and config.disaggregation_mode.value in ("agg", "decode")

    def install(self) -> None:
        """See `Worker`."""
        patch("dynamo.vllm.main", "setup_vllm_engine", self._with_parsers)
        for module in (
            "dynamo.vllm.main",
            "dynamo.vllm.handlers",
        ):  # in the latter for LoRA adapters
            patch(module, "register_model", self._with_worker_card)
        patch("dynamo.vllm.handlers", "DecodeWorkerHandler.generate", self.with_postprocessing)

    def _with_parsers(self, setup_vllm_engine: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(setup_vllm_engine)
        def setup(config: Any, *args: Any, **kwargs: Any) -> Any:
            self.config = config
            ENGINE.exit_on_setup_error(self.build)()
            return setup_vllm_engine(config, *args, **kwargs)

        return setup

    def _with_worker_card(self, register_model: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(register_model)
        async def register(*args: Any, runtime_config: Any = None, **kwargs: Any) -> Any:
            await self.advertise(runtime_config)
            return await register_model(*args, runtime_config=runtime_config, **kwargs)

        return register

    def load(self) -> tuple[Any, ParserFactory, dict[str, Any]]:
        """See `Worker`."""
        engine_args, plugin = self.config.engine_args, self.settings.tool_parser_plugin
        tokenizer, model_config = tokenizer_of(engine_args)
        parsers = build_parsers(self.settings.parsers, self.settings.names, tokenizer, model_config)
        return (
            tokenizer,
            parsers,
            {"model": pick_fields(engine_args, MODEL_ARGUMENTS), "plugin": plugin},
        )

    def run(
        self,
        start: Start,
        handler: Any,
        request_id: str,
        params: PostprocessParams,
        prompt: list[int],
    ) -> tuple[AsyncIterator[JsonDict], EngineRequestHandle]:
        """See `Worker`."""
        return start(), VllmRequestHandle(handler.engine_client, request_id, params.n)


class VllmRequestHandle:
    """One request in vLLM's engine; see `flow.EngineRequestHandle`. engine: vLLM's AsyncLLM."""

    def __init__(self, engine: Any, request_id: str, n: int) -> None:
        self._engine = engine
        self._request_id = request_id
        self._n = n

    async def abort(self, index: int) -> None:
        """End the work on a choice."""
        if self._n == 1:
            await self._engine.abort(self._request_id)
        else:
            await self._engine.abort(self._internal_ids(index), internal=True)

    def set_stream_interval(self, index: int, tokens: int) -> None:
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
        return [
            internal_id
            for internal_id in running
            if self._n == 1 or internal_id.startswith(f"{index}_")
        ]
