"""What the adapters of all engines share: how a worker is checked, wrapped and given its post-processing."""

from __future__ import annotations

import abc
import functools
import importlib
import importlib.metadata
import inspect
import json
import logging
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Any, ClassVar

import msgspec

from ...parsers.base import ParserFactory, ParserNames
from ...parsers.errors import BackedgeError, SetupError
from ...parsers.parser_lookup import Kind, known_formats, linear_parsers, uses_native
from ...postprocess.engine_output import JsonDict
from ...postprocess.messages import KEY, PostprocessParams, WorkerCard, encode
from ...tokenization import load as load_tokenizer
from ...tokenization.detokenizer import DetokenizerFactory, detokenizers, read_vocabulary
from ..backend import InlineBackend, PostprocessBackend
from ..flags import EngineName, WorkerSettings, enabling_flags
from ..handler import WorkerPostprocessor, read_params
from ..metrics import WorkerMetrics
from ..pool import PoolSupervisor
from ..request_stream import EngineRequestHandle

logger = logging.getLogger(__name__)

OwnTokenizer = tuple[str, str, str]
"""Module and class of a tokenizer of the user's, and the model's path."""

Start = Callable[[], AsyncIterator[JsonDict]]
"""Starts a request and returns its outputs."""


class EngineSupport(msgspec.Struct, frozen=True):
    """What one engine's adapter relies on.

    name: also of its distribution and its flag. version: supported, less its last part.
    patch_points: module, attribute, and the first parameters that the wrappers use.
    metrics: the function of Dynamo's, by module and name, that is told the endpoint as `generate_endpoint`.
    """

    name: EngineName
    version: str
    patch_points: tuple[tuple[str, str, tuple[str, ...]], ...]
    metrics: tuple[str, str]

    @property
    def flag(self) -> str:
        """The flag that switches post-processing on."""
        return enabling_flags(self.name)[0]

    @property
    def supported(self) -> dict[str, str]:
        """Versions by distribution."""
        return {"ai-dynamo": "1.6", self.name: self.version}

    def check_versions(self) -> None:
        """Raise `SetupError` unless Dynamo and the engine are of versions that the adapter knows."""
        found = {package: importlib.metadata.version(package) for package in self.supported}
        if any(
            not version.startswith(f"{self.supported[package]}.")
            for package, version in found.items()
        ):
            have = ", ".join(f"{package} {version}" for package, version in found.items())
            want = ", ".join(
                f"{package} {version}.x" for package, version in self.supported.items()
            )
            raise SetupError(
                f"found {have}; this Backedge supports {want}. Install one of these, or drop the flag."
            )

    def check_patch_points(self) -> None:
        """Raise `SetupError` unless every seam looks as expected."""
        for module_name, path, parameters in self.patch_points:
            target: Any = importlib.import_module(module_name)
            for name in path.split("."):
                target = getattr(target, name, None)
            if target is None or (
                parameters and first_parameters(target, len(parameters)) != parameters
            ):
                raise SetupError(
                    f"{module_name}.{path} of ai-dynamo {importlib.metadata.version('ai-dynamo')} is not what Backedge "
                    f"expects; install ai-dynamo {self.supported['ai-dynamo']}.x as published, or drop the flag."
                )

    def exit_on_setup_error(self, check: Callable[..., Any]) -> Callable[..., Any]:
        """Return `check`, ending the process with the message alone where it refuses."""

        @functools.wraps(check)
        def checked(*arguments: Any) -> Any:
            try:
                return check(*arguments)
            except BackedgeError as error:
                raise SystemExit(f"{self.flag}: {error}") from error

        return checked


def first_parameters(function: Callable[..., Any], count: int) -> tuple[str, ...]:
    """Return the names of the first `count` parameters."""
    return tuple(inspect.signature(function).parameters)[:count]


def choose_parsers(
    kind: Kind, names: ParserNames, tokenizer: Any, native: Callable[[], ParserFactory]
) -> ParserFactory:
    """Return the parsers of this kind and these names for the engine's `tokenizer`.

    native: makes the engine's own.
    Raises `UnknownParserError` and `UnusableParserError`.
    """
    return (
        native() if uses_native(kind, names) else linear_parsers(names, read_vocabulary(tokenizer))
    )


def pool_parts(
    module: str,
    names: dict[str, str | None],
    arguments: dict[str, Any],
    own_tokenizer: OwnTokenizer | None,
) -> tuple[DetokenizerFactory, ParserFactory]:
    """Return what a process of the pool needs; called in one.

    module: of the engine's adapter, whose `pool_parts` returns the tokenizer and the parsers.
    names: the fields of `ParserNames`, as they come from JSON.
    """
    tokenizer, parsers = importlib.import_module(module).pool_parts(
        names=ParserNames(**names), **arguments
    )
    return detokenizers(
        tokenizer if own_tokenizer is None else load_tokenizer(*own_tokenizer)
    ), parsers


class Worker(abc.ABC):
    """The wrappers around one worker process, and what they share. config: Dynamo's."""

    engine: ClassVar[EngineSupport]

    def __init__(self, config: Any, settings: WorkerSettings) -> None:
        self.config = config
        self.settings = settings
        self.metrics = WorkerMetrics()
        self.parsers: ParserFactory
        self._postprocessor: WorkerPostprocessor | None = None
        self._pool: PoolSupervisor | None = None

    # What differs between the engines.

    @abc.abstractmethod
    def check_config(self) -> None:
        """Raise `SetupError` if a worker of this configuration cannot post-process, though it answers chats."""

    @abc.abstractmethod
    def check_names(self, also_known: set[str]) -> None:
        """Raise `UnknownParserError` for a parser that the engine does not have; load whatever registers some."""

    @property
    @abc.abstractmethod
    def model_path(self) -> str:
        """The path or name of the model, as the engine was given it."""

    @abc.abstractmethod
    def post_processes(self) -> bool:
        """Whether the worker answers chat requests with tokens."""

    @abc.abstractmethod
    def install(self) -> None:
        """Put the wrappers in place, before Dynamo builds its handlers."""

    @abc.abstractmethod
    def load(self) -> tuple[Any, ParserFactory, dict[str, Any]]:
        """Return the tokenizer, the parsers, and what the module's `pool_parts` makes them of besides their names."""

    @abc.abstractmethod
    def run(
        self,
        start: Start,
        handler: Any,
        request_id: str,
        params: PostprocessParams,
        prompt: list[int],
    ) -> tuple[AsyncIterator[JsonDict], EngineRequestHandle]:
        """Return the outputs of a request, and what the engine can be asked about it.

        handler: Dynamo's. prompt: token ids.
        """

    # What does not.

    @classmethod
    def enable(cls, config: Any, settings: WorkerSettings) -> None:
        """Check everything that needs no model, and put the wrappers in place.

        Raises `SetupError` if this worker cannot post-process.
        """
        cls.engine.check_versions()
        cls.engine.check_patch_points()
        worker = cls(config, settings)
        worker.check_config()
        if uses_native(settings.parsers, settings.names):
            worker.check_names({*known_formats()})
        if worker.post_processes():
            module, function = cls.engine.metrics
            patch(module, function, worker.with_metrics)
            worker.install()
        else:
            logger.info(
                "%s has no effect on this kind of worker; it passes requests through",
                cls.engine.flag,
            )

    def build(self) -> None:
        """Load the tokenizer and try the parsers, while the engine has not loaded anything."""
        settings = self.settings
        tokenizer, self.parsers, arguments = self.load()
        own = self._own_tokenizer()
        if own is not None:
            tokenizer = load_tokenizer(*own)
            tokenizer.get()  # so that what is wrong with it is said now
        is_native = uses_native(settings.parsers, settings.names)
        processes = settings.pool_processes(is_native=is_native)
        backend: PostprocessBackend
        if processes:
            build = {
                "module": type(self).__module__,
                "names": msgspec.structs.asdict(settings.names),
                "arguments": arguments,
                "own_tokenizer": own,
            }
            pool = settings.pool(processes, f"{__name__}:pool_parts", build, self.parsers.name)
            backend = self._pool = PoolSupervisor(pool, self.metrics.report)
        else:
            backend = InlineBackend(
                detokenizers(tokenizer),
                self.parsers,
                settings.delays,
                settings.on_error,
                self.metrics.report,
            )
        self.metrics.pool = self._pool
        self._postprocessor = WorkerPostprocessor(backend, self.metrics)
        logger.info(
            "post-processing in this worker: %s parsers %s, %s, on error %s, merge bounds %s",
            "native" if is_native else "linear",
            self.parsers.name,
            f"in {processes} processes" if processes else "inline",
            settings.on_error,
            settings.delays,
        )

    def _own_tokenizer(self) -> OwnTokenizer | None:
        """Return the tokenizer of the user's own that the flags name."""
        choice = self.settings.tokenizer
        if not (choice.module and choice.class_name):
            return None
        return choice.module, choice.class_name, self.model_path

    def with_metrics(self, set_up: Callable[..., Any]) -> Callable[..., Any]:
        """Return Dynamo's function that serves the engine's metrics, serving ours as well."""
        signature = inspect.signature(set_up)

        @functools.wraps(set_up)
        def set_up_both(*args: Any, **kwargs: Any) -> Any:
            self.metrics.expose(signature.bind(*args, **kwargs).arguments["generate_endpoint"])
            return set_up(*args, **kwargs)

        return set_up_both

    async def advertise(self, runtime_config: Any) -> None:
        """Say on the model card that this worker post-processes, as soon as it does."""
        if self._pool is not None:
            try:
                await self._pool.ready()
            except SetupError as error:
                raise SystemExit(f"{self.engine.flag}: {error}") from error
        if runtime_config is None:
            return
        worker_card = WorkerCard(
            engine=self.engine.name,
            engine_version=importlib.metadata.version(self.engine.name),
            tool_call_parser=self.settings.names.tool_call,
            reasoning_parser=self.settings.names.reasoning,
            tokenizer_backend=self.settings.tokenizer.backend,
            tokenizer_module=self.settings.tokenizer.module,
            tokenizer_class=self.settings.tokenizer.class_name,
        )
        # The binding parses JSON; ours travels as one string, as in the messages.
        runtime_config.set_engine_specific(KEY, json.dumps(encode(worker_card)))

    def with_postprocessing(
        self, generate: Callable[..., AsyncIterator[JsonDict]]
    ) -> Callable[..., Any]:
        """Return a handler's `generate`, post-processing what it yields for requests that carry a spec."""
        from dynamo.common.utils.token_ids import normalize_request_token_ids

        @functools.wraps(generate)
        def generate_and_postprocess(
            handler: Any, request: JsonDict, context: Any
        ) -> AsyncIterator[JsonDict]:
            start = functools.partial(generate, handler, request, context)
            params = read_params(request)
            if params is None or self._postprocessor is None:
                return start()
            token_ids = normalize_request_token_ids(request)["token_ids"]
            outputs, running = self.run(
                start, handler, context.id(), params, token_ids[: params.prompt_length]
            )
            return self._postprocessor.stream(outputs, params, token_ids, running)

        return generate_and_postprocess


def pick_fields(record: Any, names: Iterable[str]) -> dict[str, Any]:
    """Return the attributes of these names."""
    return {name: getattr(record, name) for name in names}


def patch(module: str, path: str, wrapper: Callable[[Any], Any]) -> None:
    """Put `wrapper` of what `path` names in a module into its place."""
    *parents, name = path.split(".")
    owner: Any = functools.reduce(getattr, parents, importlib.import_module(module))
    setattr(owner, name, wrapper(getattr(owner, name)))
