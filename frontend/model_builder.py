"""The base class of the tokenizer back ends: each builds models and prepares their requests."""

from __future__ import annotations

import abc
import asyncio
import dataclasses
import functools
from collections.abc import Awaitable, Callable, Collection
from pathlib import Path
from typing import ClassVar

import msgspec
from dynamo.frontend.structural_tag_policy import (
    runtime_structural_tag_excludes_reasoning,
    runtime_structural_tag_options,
)

from ..base.engines import load_engine_module
from ..base.errors import MALFORMED_FLAG, REASONING_FLAG, TOOL_CALL_FLAG, SetupError
from ..base.gc_freeze import importing
from ..base.json_types import JsonObject
from ..base.log import get_logger
from ..base.seams import Seam, check_seams, read_version
from ..engines.dynamo.types import (
    read_runtime_config,
)
from ..guided.call_policy import (
    CallPolicy,
    ReasoningTags,
    find_call_format,
    read_reasoning_tags,
    settle_markers,
)
from ..parsers.api import Engine, native_names
from ..parsers.base import ParserNames
from ..parsers.detection import detect_reasoning, detect_tool_calls
from ..parsers.parser_lookup import Kind, reasoning_format, tool_format
from ..parsers.response_template import PREFIX, reasoning_part
from ..postprocess.messages import WorkerCard
from ..templates.auto_parsers import read_added_tokens, read_evidence, resolve_auto
from ..tokenization.model_files import ModelFolder, takes_media
from ..tokenization.prompt_cache import PromptCache
from ..tokenization.tokenizer_selection import Backend, TokenizerSelection
from .chat_model import Blocks, Deployment, WrapEngine, as_it_is
from .metrics import LocalParsing
from .parser_selection import (
    FrontendParsers,
    find_described,
    read_configured_parsers,
    select_parsers,
)
from .prompt_queue import PromptQueue
from .request.tool_schema_cache import standard_parameters
from .turns.turn_keeper import LocalFactories

logger = get_logger(__name__)

# By tokenizer back end: the folder of the engine, and the class in its `frontend.py`.
BUILDERS: dict[Backend, tuple[str, str]] = {
    "huggingface": ("transformers", "HuggingFaceModelBuilder"),
    "vllm": ("vllm", "VllmModelBuilder"),
    "sglang": ("sglang", "SglangModelBuilder"),
    "python": ("transformers", "HuggingFaceModelBuilder"),
}
# The folders of the projects whose seams a back end relies on, besides Dynamo's.
TABLES: dict[Backend, tuple[str, ...]] = {
    "huggingface": (),
    "vllm": ("vllm", "transformers"),
    "sglang": ("sglang", "transformers"),
    "python": (),
}


class ChatModelBuilder(abc.ABC):
    """Builds one model.

    deployment: its flags have tool_call_parser, reasoning_parser and chat_template.
    selection: the tokenizer. worker_card: of the model's workers; None for plain workers.
    prompt_cache: shared by all models; None to remember no prompts.
    features_off: the features that the installed versions lack; set when the class is loaded.
    native: the engine whose own parsers it may use.
    Raises `SetupError` if a flag is "template" and the model's files have none.
    """

    native: ClassVar[Engine | None] = None
    features_off: frozenset[str] = frozenset()

    def __init__(
        self,
        deployment: Deployment,
        prompt_queue: PromptQueue,
        selection: TokenizerSelection,
        worker_card: WorkerCard | None,
        prompt_cache: PromptCache | None = None,
    ) -> None:
        self.deployment = deployment
        self.config = deployment.config
        self.flags = deployment.flags
        self.prompt_queue = prompt_queue
        self.selection = selection
        self.card = card = deployment.card
        self.prompt_cache = prompt_cache
        self.path = card.local_dir()
        self.runtime_config = card.runtime_config()
        runtime_config = read_runtime_config(card)
        self.context_length = runtime_config.context_length
        self._read_again_by = runtime_config.tool_call_parser
        self.worker_card = worker_card
        found = read_configured_parsers(self.flags, runtime_config, worker_card)
        given = self.flags.chat_template  # a file, or the name of one of the engine's own
        names = resolve_auto(
            found.names,
            self.path,
            chat_template=given if given and Path(given).is_file() else None,
            known=native_names(self.kind, self.native),
            kind=self.kind,
            required=False,  # the flags are for all models, some of which have no tools
        )
        self.configured = msgspec.structs.replace(found, names=names)

    @abc.abstractmethod
    async def build(self) -> Blocks:
        """Return what prepares the requests of the model, and what post-processes its answers.

        Raises `SetupError` for a model whose files do not suffice, and
        `UnknownParserError` for a configured name that no parser has.
        """

    def engine_name(self, default: str) -> str:
        """Return the name of the workers' engine; `default` if it is unknown."""
        return default if self.worker_card is None else self.worker_card.engine

    def log_uncached(self, reason: str | None) -> None:
        """Log why the model's prompts are not remembered; None if they are."""
        if reason is not None and self.prompt_cache is not None and self.prompt_cache.capacity:
            logger.warning("model %s: no prompt cache: %s", self.card.name(), reason)

    def log_model(self, renderer: str, names: ParserNames) -> None:
        """Log how the model is served, and a warning if no parser reads what it writes."""
        where = "in its workers" if self.worker_card is not None else "here"
        name = self.card.name()
        logger.info(
            "model %s: %s, post-processed %s, parsers %s", name, renderer, where, names.label
        )
        if self.worker_card is None and (unread := self._find_unread()):
            logger.warning(
                "model %s: its workers are plain ones, and no parser is set, so clients get the "
                "model's %s as content; start this frontend, or the workers, with the flag",
                name,
                " and ".join(unread),
            )

        if self.worker_card is not None and self._read_again_by:
            logger.warning(
                "model %s: Dynamo's parser %s reads answers without a stream again, so their "
                "content is spelled otherwise; leave --dyn-tool-call-parser out if no stock "
                "frontend serves this model's workers",
                name,
                self._read_again_by,
            )

    def _find_unread(self) -> list[str]:
        """Return what the model writes that no parser reads, with the flag for it."""
        names = self.configured.names
        try:
            evidence = read_evidence(self.path, self.flags.chat_template)
        except SetupError:
            return []
        tools = detect_tool_calls(evidence).format
        reasoning = detect_reasoning(evidence, tool_format(names.tool_call or "") or tools).format
        return [
            f"{what} ({flag} {found.name})"
            for what, flag, name, found in (
                ("reasoning", REASONING_FLAG, names.reasoning, reasoning),
                ("tool calls", TOOL_CALL_FLAG, names.tool_call, tools),
            )
            if found is not None and not name
        ]

    @functools.cached_property
    def call_policy(self) -> CallPolicy:
        """When calls are held to a grammar of the model's own syntax."""
        # Dynamo moves no request with a grammar, and then `auto` needs none.
        policy = self._card_policy
        return dataclasses.replace(policy, always=False) if self.regenerates else policy

    @functools.cached_property
    def _card_policy(self) -> CallPolicy:
        """The policy of the card, as if no call were generated again."""
        read_tokens = functools.partial(read_added_tokens, Path(self.path))
        names = self.configured.names
        return read_call_policy(self.runtime_config, names, read_tokens)

    @property
    def regenerates(self) -> bool:
        """Whether malformed calls are generated again, by the workers or for plain ones."""
        if self.worker_card is not None:
            return self.worker_card.regenerates
        described = find_described(self.configured, self.kind)
        has_grammar = self._card_policy.calls is not None
        return self.deployment.regenerates and has_grammar and not described

    @functools.cached_property
    def reads_media(self) -> bool:
        """Whether the model reads images, videos or audio."""
        return takes_media(ModelFolder(self.path))

    @property
    def kind(self) -> Kind:
        """The kind of parsers for the streams of plain workers."""
        kind: Kind = getattr(self.flags, "postprocess_parsers", "auto")
        return kind

    def usable_parsers(self) -> FrontendParsers:
        """Return the parsers for the model's plain workers. Raises `UnknownParserError`."""
        return select_parsers(self.configured, self.kind, self.native)

    async def wrap_plain(
        self, local_factories: LocalFactories, parsing: LocalParsing
    ) -> WrapEngine:
        """Return what post-processes plain workers' streams as workers do, where that is needed.

        The model's own description runs in processes, and malformed calls are generated again.
        local_factories: as of `Blocks`. parsing: counts what is done.
        Raises `SetupError` if the processes do not start.
        """
        if self.worker_card is not None:
            return as_it_is
        if find_described(self.configured, self.kind):
            return await self._start_pool(parsing)
        if self.regenerates:
            module = await asyncio.to_thread(load_engine_module, "dynamo", "plain_workers")
            regenerate: Callable[..., WrapEngine] = module.regenerate
            return regenerate(
                self.call_policy.calls,
                local_factories,
                parsing,
                self.deployment.stream_calls,
                self.deployment.config.migration_limit,
            )
        if self.deployment.regenerates:
            logger.warning(
                "model %s: %s regenerate: the parser %r has no grammar of calls, so malformed "
                "calls stay open",
                self.card.name(),
                MALFORMED_FLAG,
                self.configured.names.tool_call,
            )
        return as_it_is

    async def _start_pool(self, parsing: LocalParsing) -> WrapEngine:
        """Start the processes that run the model's own description. Raises as `wrap_plain`."""
        module = await asyncio.to_thread(load_engine_module, "transformers", "frontend_pool")
        selection = self.selection
        own = (selection.module, selection.class_name, self.path) if selection.module else None
        start: Awaitable[WrapEngine] = module.start_pool(
            self.configured.names,
            self.path,
            own,
            parsing,
            trust_remote_code=self.config.trust_remote_code,
        )
        return await start


@functools.cache
def load_builder(backend: Backend) -> type[ChatModelBuilder]:
    """Return the class that builds models with `backend`; importing an engine takes seconds.

    Raises `SetupError` if the installed versions do not fit.
    """
    folder, name = BUILDERS[backend]
    tables = [load_engine_module(table, "seams") for table in TABLES[backend]]
    packages = tuple(dict.fromkeys(package for table in tables for package in table.PACKAGES))
    needed: list[Seam] = [seam for table in tables for seam in (*table.FRONTEND, *table.PARSERS)]
    with importing():
        features_off = check_seams(needed, packages)
        try:
            builder: type[ChatModelBuilder] = getattr(load_engine_module(folder, "frontend"), name)
        except (ImportError, AttributeError) as error:
            versions = ", ".join(f"{package} {read_version(package)}" for package in packages)
            raise SetupError(
                f"the tokenizer back end {backend!r} cannot be imported ({error}); found "
                f"{versions}. Install versions that docs/compatibility.md lists."
            ) from error
    builder.features_off = features_off
    return builder


class StructuralTagOptions(msgspec.Struct):
    """The options that Dynamo's own functions do not read."""

    tool_arguments_any_order: object = False


class EngineData(msgspec.Struct):
    """The facts about grammars that workers publish; None if unknown."""

    tool_call_structural_tag_excludes_reasoning: object = None


class CardOptions(msgspec.Struct):
    """The part of a card's configuration that decides about grammars of calls."""

    structural_tag: StructuralTagOptions | None = None
    runtime_data: EngineData | None = None


def read_call_policy(
    runtime_config: JsonObject,
    names: ParserNames,
    read_tokens: Callable[[], Collection[str]] = tuple,
) -> CallPolicy:
    """Return the policy of a model (its workers' `--dyn-structural-tag`).

    runtime_config: the card's. names: the parsers that are configured for the model.
    read_tokens: as for `find_call_format`.
    """
    mode, scope, schema = runtime_structural_tag_options(runtime_config)
    tag = msgspec.convert(runtime_config, CardOptions).structural_tag or StructuralTagOptions()
    return CallPolicy(
        calls=find_call_format(names, read_tokens),
        enabled=mode == "on",
        always=scope == "always",
        strict=schema == "strict",
        any_order=bool(tag.tool_arguments_any_order),
        reasoning=find_passed_reasoning(runtime_config, names.reasoning, read_tokens),
        standardize=standard_parameters,
    )


def find_passed_reasoning(
    runtime_config: JsonObject, name: str | None, read_tokens: Callable[[], Collection[str]]
) -> ReasoningTags | None:
    """Return the markers of the reasoning that grammars must let pass; None if the engine does.

    The card may say that grammars begin with the first token. No engine knows the reasoning of a
    checkpoint's own description.
    name: of the reasoning parser. Otherwise as for `read_call_policy`.
    """
    if not name or runtime_structural_tag_excludes_reasoning(runtime_config):
        return None
    data = msgspec.convert(runtime_config, CardOptions).runtime_data or EngineData()
    if name.startswith(PREFIX):
        name = reasoning_part(name)
    elif data.tool_call_structural_tag_excludes_reasoning is None:
        return None
    format_ = reasoning_format(name) if name else None
    if format_ is None:
        return None
    return read_reasoning_tags(settle_markers(format_, read_tokens))
