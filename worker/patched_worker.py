"""The common part of Dynamo's patched workers; the engines' adapters provide the rest.

An adapter derives its class from `PatchedWorker` and calls `enable` once Dynamo has parsed the
flags. `install` patches Dynamo's functions, which then call `build`, `publish_worker_card`,
`with_metrics` and `with_postprocessing`.
"""

from __future__ import annotations

import abc
import argparse
import functools
import inspect
from collections.abc import Awaitable, Callable
from typing import Any, ClassVar, Generic, TypeVar

import msgspec
from typing_extensions import override

from ..base.engines import load_native_parsers
from ..base.errors import SetupError, exiting
from ..base.log import get_logger
from ..base.ports import check_system_port
from ..base.seams import Role, read_version
from ..engines.dynamo import seams
from ..parsers.base import ParserNames
from ..parsers.parser_lookup import known_formats, uses_native
from ..parsers.response_template import describing_name
from ..tokenization.tokenizer_selection import BACKEND_FLAG, ModelRuntimeConfig
from .decoding import check_tokenizer
from .engine_support import ENDPOINT, EngineSupport
from .engine_worker import HandlerT, Worker, name_parsers_in_rust
from .flags import WorkerSettings, read_settings
from .stock_frontends import complete_names

logger = get_logger(__name__)

ConfigT = TypeVar("ConfigT")
T = TypeVar("T")


class PatchedWorker(Worker[HandlerT], Generic[ConfigT, HandlerT]):
    """A worker of Dynamo's that is patched to post-process.

    config: Dynamo's, of this engine. off: features whose seams do not hold.
    """

    engine: ClassVar[EngineSupport]

    def __init__(self, config: ConfigT, settings: WorkerSettings) -> None:
        super().__init__(settings)
        self.config = config
        self.off: frozenset[str] = frozenset()

    # The parts that differ between the engines.

    @property
    @abc.abstractmethod
    def text_flag(self) -> str | None:
        """The flag that makes the worker take and give text instead of tokens, if it is set."""

    @abc.abstractmethod
    def post_processes(self) -> bool:
        """Whether the worker answers chat requests with tokens."""

    @abc.abstractmethod
    def install_card(self) -> None:
        """Patch Dynamo's functions so that `publish_worker_card` gets the model card."""

    @abc.abstractmethod
    def install(self) -> None:
        """Patch Dynamo's functions for post-processing, before Dynamo builds its handlers."""

    # The common parts.

    @property
    @override
    def engine_name(self) -> str:
        return self.engine.name

    @property
    @override
    def engine_version(self) -> str:
        return read_version(self.engine.distribution)

    @classmethod
    def enable_by_flags(cls, config: ConfigT, arguments: argparse.Namespace) -> None:
        """Enable what the flags request. Raises SystemExit if this worker cannot do it."""
        with exiting():
            settings = read_settings(arguments, cls.engine.name)
            if settings is not None:
                cls.enable(config, settings)

    @classmethod
    def enable(cls, config: ConfigT, settings: WorkerSettings) -> None:
        """Check everything that needs no model, and patch Dynamo.

        Raises `SetupError` if this worker cannot do what its flags request.
        """
        cls.engine.check_versions()
        worker = cls(config, settings)
        worker.check_seams()
        worker.check_flags()
        check_system_port()
        worker.install_card()
        if not settings.post_processing:
            return
        if worker.post_processes():
            if seams.ENDPOINT not in worker.off:
                cls.engine.replace(cls.engine.metrics, worker.with_metrics)
            worker.install()
        else:
            logger.info(
                "%s has no effect on this kind of worker; it passes requests through",
                cls.engine.flag,
            )

    def check_flags(self) -> None:
        """Complete the parsers' names, and load the user's plugins.

        Raises `SetupError` if this worker cannot do what its flags request.
        """
        settings = self.settings
        names = complete_names(settings.names, self.parsers_in_rust, settings.parsers)
        self.settings = settings = msgspec.structs.replace(settings, names=names)
        self.check_text_flag()
        if not settings.post_processing:
            return
        self.load_plugins()
        if settings.detokenizer == "native":
            check_tokenizer(settings.tokenizer, self.engine.name)
        if uses_native(settings.parsers, names) and not describing_name(names):
            self.check_names({*known_formats()})

    def check_seams(self) -> None:
        """Raise `SetupError` unless the installed versions have what this worker needs.

        `check_names` checks what native parsers need.
        """
        roles: list[Role] = ["flags", "worker"]
        if self.settings.post_processing and self.settings.detokenizer == "native":
            roles.append("detokenizer")
        self.off = self.engine.check_seams(*roles)

    def check_text_flag(self) -> None:
        """Raise `SetupError` if a flag makes no sense for this worker."""
        if self.text_flag is None:
            return
        if self.settings.post_processing:
            raise SetupError(
                f"{self.text_flag} makes the worker answer with text, so there are no tokens to "
                "post-process; drop one of the two flags."
            )
        raise SetupError(
            f"{BACKEND_FLAG} {self.settings.tokenizer.backend} is for prompts that the frontend "
            f"tokenizes, but {self.text_flag} leaves that to the worker; drop one of the two flags."
        )

    @property
    @override
    def parsers_in_rust(self) -> ParserNames:
        config: Any = self.config  # most engines' flags include Dynamo's own
        return name_parsers_in_rust(config)

    def check_names(self, also_known: set[str]) -> None:
        """Raise `UnknownParserError` for a parser that the engine does not have.

        also_known: additional names for the message.
        """
        load_native_parsers(self.engine.name).check_names(self.settings.names, also_known)

    def take_engine_arguments(self, arguments: Any) -> None:
        """Take the configuration with which Dynamo loads the engine, once it is complete."""
        self.config = arguments

    def with_build(self, load_engine: Callable[..., T]) -> Callable[..., T]:
        """Wrap Dynamo's function that loads the engine, to build post-processing before that."""

        @functools.wraps(load_engine)
        def build_and_load(arguments: object, *args: object, **kwargs: object) -> T:
            self.take_engine_arguments(arguments)
            with exiting():
                self.build()
            return load_engine(arguments, *args, **kwargs)

        return build_and_load

    def load_plugins(self) -> None:
        """Load the user's files that register parsers; does nothing by default."""

    def with_metrics(self, set_up: Callable[..., T]) -> Callable[..., T]:
        """Wrap Dynamo's function that serves the engine's metrics, to serve ours as well."""
        signature = inspect.signature(set_up)

        @functools.wraps(set_up)
        def set_up_both(*args: object, **kwargs: object) -> T:
            self.attach(signature.bind(*args, **kwargs).arguments[ENDPOINT])
            return set_up(*args, **kwargs)

        return set_up_both

    def with_worker_card(
        self, register_model: Callable[..., Awaitable[T]]
    ) -> Callable[..., Awaitable[T]]:
        """Wrap Dynamo's `register_model`, to publish the worker's card before."""

        @functools.wraps(register_model)
        async def register(
            *args: object, runtime_config: ModelRuntimeConfig | None = None, **kwargs: object
        ) -> T:
            await self.publish_worker_card(runtime_config)
            return await register_model(*args, runtime_config=runtime_config, **kwargs)

        return register
