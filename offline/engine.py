"""Offline generation by any back end: batches of requests in, results out.

    config = ModelLoadConfig("examples/tiny_model", backend="replay")
    with GenerationEngine(config) as engine:
        for result in engine.generate_text_batch([TextGenerationRequest(messages=[...])]):
            print(result.text)

Everything that can be checked is checked before weights load: options by the constructor, and the
requirements of a batch by the call that starts it.
"""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Self, TypeVar

import msgspec

from ..base.errors import SetupError
from ..base.log import get_logger
from .contracts import (
    CapabilityError,
    EmbeddingRequest,
    EngineDiedError,
    GenerationOptions,
    ModelLoadConfig,
    OptionValueError,
    PluginError,
    RequestKind,
    TextGenerationRequest,
    VlmGenerationRequest,
)
from .embeddings import EmbeddingRow, embed_rows, prepare_embeddings
from .inference_backend import (
    CAPABILITIES,
    EMBEDDINGS,
    GUIDED,
    LOGPROBS,
    LORA,
    SEEDS,
    VLM,
    Backend,
    able_backends,
    backend_class,
)
from .plugins.base import Plugin, check_backend, check_batch, check_declaration
from .preparation import Preparation, ReadRequest, read_request
from .regeneration import generate_again
from .results import GenerationResult, RowError
from .rows import Row, find_row_error

logger = get_logger(__name__)

Indexed = tuple[int, GenerationResult]
R = TypeVar("R", Row, EmbeddingRow)


class GenerationEngine:
    """Generates text for batches of conversations.

    plugins: for every batch. The constructor checks the configuration and loads nothing; the
    first batch loads the weights after its own checks, and `close` frees them.
    Raises `SetupError` and its subclasses, which say what to change.
    """

    def __init__(self, config: ModelLoadConfig, plugins: Sequence[Plugin] = ()) -> None:
        self.config = config
        self._plugins = [check_declaration(plugin, CAPABILITIES) for plugin in plugins]
        self._backends: dict[str, Backend] = {
            config.backend: backend_class(config.backend)(config, self._plugins)
        }
        self._preparations: dict[str, Preparation] = {}
        self._loaded: str | None = None
        # The running batch.
        self._rows: Generator[Row | EmbeddingRow, None, None] | None = None
        if config.fallback_backend is None:
            check_backend(self._plugins, config.backend)
            for plugin in self._plugins:
                _check_needs(f"plugin {plugin.name!r}", plugin.needs, self.backend)
            _check_needs("lora", [LORA] if config.lora else [], self.backend)
        for folder in config.lora.values():
            if not (Path(folder) / "adapter_config.json").is_file():
                allowed = "a folder with an adapter_config.json"
                raise OptionValueError.wrong("lora", str(folder), allowed)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the running batch and free the weights; the next batch loads them again."""
        self._end_batch()
        if self._loaded is not None:
            self._backends[self._loaded].close()
            self._loaded = None

    @property
    def backend(self) -> Backend:
        """The back end of `config.backend`."""
        return self._backends[self.config.backend]

    @property
    def in_windows(self) -> bool:
        """As in `Backend`, for the back end that generates the running batch."""
        backend = self._backends[self._loaded or self.config.backend]
        return backend.in_windows or backend.embeds

    def load(self) -> None:
        """Load the weights for answers now instead of with the first batch."""
        self._load(self.config.backend)

    def generate_text_batch(
        self,
        requests: Sequence[TextGenerationRequest],
        options: GenerationOptions | None = None,
        plugins: Sequence[Plugin] | None = None,
    ) -> list[GenerationResult]:
        """Return the results in the order of the requests.

        options: for requests without their own. plugins: instead of the engine's.
        Raises `SetupError` and its subclasses before weights load.
        """
        return _in_order(self.iterate_text_batch(requests, options, plugins))

    def iterate_text_batch(
        self,
        requests: Iterable[TextGenerationRequest],
        options: GenerationOptions | None = None,
        plugins: Sequence[Plugin] | None = None,
    ) -> Generator[Indexed, None, None]:
        """Yield `(index, result)` as soon as each result is done.

        requests: an iterator is read when the back end has room, without comparing ids, for there
            may be many; a sequence is checked first. Otherwise as `generate_text_batch`.
        The engine generates one batch at a time: if another begins, or `close` is called, this one
        ends, and its iterator raises `SetupError`.
        """
        return self._start("text", requests, options, plugins)

    def generate_vlm_batch(
        self,
        requests: Sequence[VlmGenerationRequest],
        options: GenerationOptions | None = None,
        plugins: Sequence[Plugin] | None = None,
    ) -> list[GenerationResult]:
        """Return the results of requests with images; as `generate_text_batch`."""
        return _in_order(self.iterate_vlm_batch(requests, options, plugins))

    def iterate_vlm_batch(
        self,
        requests: Iterable[VlmGenerationRequest],
        options: GenerationOptions | None = None,
        plugins: Sequence[Plugin] | None = None,
    ) -> Generator[Indexed, None, None]:
        """Return an iterator for requests with images; as `iterate_text_batch`."""
        return self._start("vlm", requests, options, plugins)

    def embed_batch(self, requests: Iterable[EmbeddingRequest]) -> list[GenerationResult]:
        """Return the embeddings of texts, in the order of the requests. Raises `SetupError`."""
        return _in_order(self.iterate_embeddings(requests))

    def iterate_embeddings(
        self, requests: Iterable[EmbeddingRequest]
    ) -> Generator[Indexed, None, None]:
        """Yield `(index, result)` with embeddings; as `iterate_text_batch`."""
        for plugin in self._plugins:
            raise PluginError(f"plugin {plugin.name!r} is for answers, not for embeddings.")
        name = self._choose_backend({EMBEDDINGS: "a row of embeddings"})
        self._backends[name].check_embeddings()
        rows = prepare_embeddings(self._prepare_with(name), requests)
        return self._generate(name, rows, (), embed_rows, embeds=True)

    def _start(
        self,
        kind: RequestKind,
        requests: Iterable[TextGenerationRequest],
        options: GenerationOptions | None,
        plugins: Sequence[Plugin] | None,
    ) -> Generator[Indexed, None, None]:
        """Check a batch; return the iterator that generates it."""
        options = options or GenerationOptions()
        if plugins is None:
            chosen = self._plugins
        else:
            chosen = [check_declaration(plugin, CAPABILITIES) for plugin in plugins]
        # An iterator may have more requests than the memory holds: each is read when it is due.
        known = [read_request(each) for each in requests] if isinstance(requests, Sequence) else []
        needs = _find_needs(kind, known, options, chosen)
        name = self._choose_backend(needs)
        all_options = [options, *_find_row_options(known)]
        check_backend(chosen, name)
        check_batch(chosen, kind=kind, parses=any(some.message for some in all_options))
        self._backends[name].check_plugins(chosen)
        if kind == "vlm":
            self._backends[name].check_vision()
        prepare = self._prepare_with(name)
        for some in all_options:
            prepare.choose_parsers(some)
        reads = known if isinstance(requests, Sequence) else map(read_request, requests)
        rows = _prepare_rows(prepare, kind, reads, options, chosen)
        return self._generate(
            name, rows, chosen, lambda backend, rows: generate_again(backend.generate, rows)
        )

    def _generate(
        self,
        name: str,
        rows: Iterator[R],
        plugins: Sequence[Plugin],
        run: Callable[[Backend, Iterator[R]], Generator[R, None, None]],
        *,
        embeds: bool = False,
    ) -> Generator[Indexed, None, None]:
        for first in rows:
            if first.error is not None:
                yield first.index, first.result(name)
                continue
            self._end_batch()
            self._load(name, embeds=embeds)
            backend = self._backends[name]
            backend.batch_plugins = plugins
            generated = self._rows = run(backend, itertools.chain([first], rows))
            try:
                for row in generated:
                    yield row.index, _clean(row.result(name), plugins)
                    if self._rows is not generated:
                        found = "the engine was closed, or began another batch, before this one"
                        raise SetupError(f"{found} had ended; read each to its end.")
            except EngineDiedError:
                # The next batch starts it again.
                self.close()
                raise
            finally:
                generated.close()

    def _end_batch(self) -> None:
        if self._rows is not None:
            if inspect.getgeneratorstate(self._rows) == inspect.GEN_RUNNING:
                raise SetupError(
                    "the engine is at work on a batch; end that first, or use another engine for "
                    "what its requests need."
                )
            self._rows.close()
            self._rows = None

    def _load(self, name: str, *, embeds: bool = False) -> None:
        backend = self._backends[name]
        if self._loaded == name and backend.embeds is embeds:
            return
        self.close()
        self._prepare_with(name)
        backend.embeds = embeds
        backend.load()
        self._loaded = name

    def _prepare_with(self, name: str) -> Preparation:
        if name not in self._preparations:
            self._preparations[name] = Preparation(self._backends[name])
        return self._preparations[name]

    def _choose_backend(self, needs: dict[str, str]) -> str:
        """Return the back end with all capabilities. needs: capability -> what requires it."""
        name, fallback = self.config.backend, self.config.fallback_backend
        missing = [need for need in needs if not self._backends[name].can(need)]
        if not missing:
            return name
        if fallback is None or fallback == name:
            _check_needs(needs[missing[0]], missing, self._backends[name])
        else:
            if fallback not in self._backends:
                config = self.config.for_fallback()
                self._backends[fallback] = backend_class(fallback)(config, self._plugins)
            for need, asked in needs.items():
                _check_needs(asked, [need], self._backends[fallback])
            logger.warning(
                "%s needs %r, which the back end %r lacks; the batch goes to %r",
                *(needs[missing[0]], missing[0], name, fallback),
            )
            return fallback
        return name


def _prepare_rows(
    prepare: Preparation,
    kind: RequestKind,
    reads: Iterable[ReadRequest],
    options: GenerationOptions,
    plugins: Sequence[Plugin],
) -> Iterator[Row]:
    """Prepare the rows of a batch one by one; those that fail carry their error."""
    ids: set[str] = set()
    for index, read in enumerate(reads):
        request_id = _id_of(read.request, index)
        if request_id in ids:
            found = f"the id {request_id!r} belongs to an earlier request of this batch"
            error = RowError("duplicate_id", f"{found}; give each its own.")
            yield Row.failed(index, request_id, error)
            continue
        # An iterator may have more ids than the memory holds, and comes unchecked.
        if isinstance(reads, Sequence):
            ids.add(request_id)
        try:
            for need, asked in _find_needs(kind, [read], options, ()).items():
                _check_needs(asked, [need], prepare.backend)
            row = prepare.build_row(kind, index, request_id, read, options, plugins)
        except Exception as raised:  # noqa: BLE001 - a row holds anything, its model any code
            error = find_row_error(raised, "request", "its preparation")
            row = Row.failed(index, request_id, error)
        yield row


def _id_of(request: object, index: int) -> str:
    request_id = getattr(request, "id", None)
    return str(index) if request_id is None else str(request_id)


def _find_row_options(reads: Sequence[ReadRequest]) -> list[GenerationOptions]:
    """Return the options of rows that have their own."""
    found = [getattr(read.request, "options", None) for read in reads]
    return [options for options in found if isinstance(options, GenerationOptions)]


def _find_needs(
    kind: RequestKind,
    reads: Sequence[ReadRequest],
    options: GenerationOptions,
    plugins: Sequence[Plugin],
) -> dict[str, str]:
    """Return the capabilities that a batch needs, each with a description of the reason."""
    needs: dict[str, str] = {}
    if kind == "vlm":
        needs[VLM] = "a request with an image"
    for plugin in plugins:
        needs |= {need: f"plugin {plugin.name!r}" for need in plugin.needs if need not in needs}
    needs |= {need: f"the option {asked}" for need, asked in _ask_options(options)}
    for index, read in enumerate(reads):
        shown = f"request {_id_of(read.request, index)!r}"
        own = _find_row_options([read])
        for need, option in itertools.chain.from_iterable(map(_ask_options, own)):
            needs.setdefault(need, f"{shown} with {option}")
        if (lora := getattr(read.request, "lora", None)) is not None:
            needs.setdefault(LORA, f"{shown} with lora={lora!r}")
        if GUIDED not in needs and (asked := read.describe(*own or [options])):
            needs[GUIDED] = f"{shown} with {asked}"
    return needs


def _ask_options(options: GenerationOptions) -> Iterator[tuple[str, str]]:
    """Yield the capabilities that options need, each with the option."""
    for need, name in ((LOGPROBS, "logprobs"), (SEEDS, "seed")):
        if (value := getattr(options, name)) is not None:
            yield need, f"{name}={value}"
    if options.malformed_calls == "regenerate":
        yield GUIDED, "malformed_calls='regenerate'"


def _check_needs(asked: str, needs: Sequence[str], backend: Backend) -> None:
    """Raise `CapabilityError` for the first capability that a back end lacks."""
    for need in needs:
        if not backend.can(need):
            remedy = backend.remedies.get(need)
            raise CapabilityError(asked, need, backend.name, able_backends(need), remedy)


def _clean(result: GenerationResult, plugins: Sequence[Plugin]) -> GenerationResult:
    """Return the result with its texts cleaned by the plugins."""
    cleaning = [plugin for plugin in plugins if "clean" in plugin.hooks]
    if not cleaning or result.error is not None:
        return result
    choices = []
    for choice in result.choices:
        text: object = choice.text
        for plugin in cleaning:
            try:
                text = plugin.clean(str(text))
            except Exception as error:
                logger.exception("plugin %r failed on request %r", plugin.name, result.id)
                return _failed_in(plugin, result, f"{type(error).__name__}: {error}")
            if not isinstance(text, str):
                return _failed_in(plugin, result, f"clean must return a string, not {text!r}")
        choices.append(msgspec.structs.replace(choice, text=text))
    return msgspec.structs.replace(result, choices=choices)


def _failed_in(plugin: Plugin, result: GenerationResult, reason: str) -> GenerationResult:
    message = f"plugin {plugin.name!r} failed on this row ({reason}); fix the plugin."
    error = RowError("plugin", message)
    return msgspec.structs.replace(result, choices=[], error=error)


def _in_order(results: Iterator[Indexed]) -> list[GenerationResult]:
    return [result for _, result in sorted(results, key=lambda pair: pair[0])]
