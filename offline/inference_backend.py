"""The interface of back ends, and their capabilities.

A back end generates token ids and feeds them to the completions of its rows. It does not decode,
cut or parse.
"""

from __future__ import annotations

import abc
import contextlib
import hashlib
import importlib
import importlib.metadata
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import ClassVar

from ..base.engines import load_engine_module, load_native_parsers
from ..base.errors import SetupError
from ..base.json_types import JsonObject
from ..parsers.api import Engine, native_parsers
from ..parsers.base import ParserFactory, ParserNames
from ..parsers.parser_lookup import linear_parsers, uses_native
from ..parsers.response_template import describing_name
from ..tokenization.detokenizer import read_vocabulary
from ..tokenization.errors import describe_error
from ..tokenization.model_files import find_folder
from .contracts import (
    BACKENDS,
    BackendUnavailableError,
    GenerationOptions,
    ModelLoadConfig,
    TextGenerationRequest,
)
from .model_text import ModelText, render_conversation
from .plugins.base import Plugin
from .rows import Prompt, Row

# Capabilities that requests, options and plugins may require.
VLM = "vlm"
LOGPROBS = "logprobs"
GUIDED = "guided"
LOGITS = "logits"
SEEDS = "seeds"
STOPPING = "stopping"
LORA = "lora"
EMBEDDINGS = "embeddings"
CAPABILITIES = (VLM, LOGPROBS, GUIDED, LOGITS, SEEDS, STOPPING, LORA, EMBEDDINGS)


class Backend(abc.ABC):
    """Generates rows. The constructor checks the configuration; `load` loads weights.

    name: as in `ModelLoadConfig.backend`. capabilities: of this kind of back end, with all
        optional packages. remedies: how to get a capability that may be missing.
    in_windows: whether it reads so many rows, generates them, and yields them before it reads more.
        If all of these are written at once, a resumed run generates the same rows together.
    native: the engine whose own parsers it may use.
    batch_plugins: those of the batch that it generates.
    embeds: whether `load` loads the model for `embed` instead of `generate`.
    Raises `SetupError` and its subclasses for an option that it does not support, and
    `BackendUnavailableError` if its library is missing.
    """

    name: ClassVar[str]
    capabilities: ClassVar[frozenset[str]]
    remedies: ClassVar[Mapping[str, str]] = {}
    in_windows: ClassVar[bool] = False
    native: ClassVar[Engine | None] = None

    def __init__(self, config: ModelLoadConfig, plugins: Sequence[Plugin] = ()) -> None:
        self.config = config
        self.plugins = list(plugins)
        self.batch_plugins: Sequence[Plugin] = ()
        self.embeds = False

    def can(self, capability: str) -> bool:
        """Whether it has a capability with the installed packages."""
        return capability in self.capabilities

    @property
    def supports_vlm(self) -> bool:
        """Whether it generates from images."""
        return self.can(VLM)

    @property
    def supports_token_ids(self) -> bool:
        """Whether its results have token ids: those of all back ends do."""
        return True

    def check_plugins(self, plugins: Sequence[Plugin]) -> None:  # noqa: B027 - optional
        """Raise `PluginError` for a batch's plugins that must be known when weights load."""

    def check_vision(self) -> None:  # noqa: B027 - optional
        """Raise `SetupError` if the model does not read images."""

    @abc.abstractmethod
    def open(self) -> ModelText:
        """Return the model's tokenizer and settings, without loading weights.

        Raises `SetupError` for a model that is missing or incomplete.
        """

    @abc.abstractmethod
    def load(self) -> None:
        """Load the weights; called once."""

    @abc.abstractmethod
    def generate(self, rows: Iterator[Row]) -> Generator[Row, None, None]:
        """Generate rows, and yield each when it has finished or failed.

        rows: read when the back end has room; one that has already failed is yielded at once.
            Closing the iterator ends the work.
        """

    def embed(self, inputs: Sequence[list[int]]) -> Iterable[Iterable[float]]:
        """Return the embeddings of some inputs, in their order. Only with `EMBEDDINGS`."""
        raise NotImplementedError

    def check_embeddings(self) -> None:  # noqa: B027 - optional
        """Raise `SetupError` if the model cannot embed."""

    def close(self) -> None:  # noqa: B027 - optional
        """Free what `load` has allocated."""

    def build_prompt(
        self, text: ModelText, request: TextGenerationRequest, options: GenerationOptions
    ) -> Prompt:
        """Return the prompt of a row. Raises `RequestError`, `RowFailure` and `TokenizerError`."""
        if request.prompt is not None:
            rendered, encode = request.prompt, text.encode_plain
        else:
            made, encode = render_conversation(text.render, request, options), text.encode
            if isinstance(made, list):
                return Prompt(made)
            rendered = str(made)
        if options.truncate_prompt_tokens is None:
            text.check_length(rendered, encode)
        return Prompt(encode(rendered), rendered)

    @classmethod
    def parsing_engine(cls, config: ModelLoadConfig) -> Engine | None:
        """Return the engine whose own parsers may parse; a plugin's are always vLLM's."""
        return cls.native if config.tool_parser_plugin is None else "vllm"

    def build_parsers(self, names: ParserNames, tokenizer: object) -> ParserFactory:
        """Return the parsers of these names, those of the engine if it has some that are needed.

        Raises `UnknownParserError`, as `native_parsers`, and for a plugin that cannot be imported.
        """
        kind, engine = self.config.postprocess_parsers, self.parsing_engine(self.config)
        if self.config.tool_parser_plugin is not None:
            load_native_parsers("vllm").load_tool_parser_plugin(self.config.tool_parser_plugin)
        may_be_native = kind != "auto" or engine is not None or bool(describing_name(names))
        if may_be_native and uses_native(kind, names):
            return native_parsers(engine, tokenizer, names)
        return linear_parsers(names, read_vocabulary(tokenizer))


@contextlib.contextmanager
def needs(backend: str, library: str, packages: str) -> Iterator[None]:
    """Import a back end's library in this context. packages: for pip.

    Raises `BackendUnavailableError` if the import fails.
    """
    try:
        yield
    except ImportError as error:
        raise BackendUnavailableError(
            f"the back end {backend!r} needs {library} ({error}); pip install {packages}."
        ) from error


@contextlib.contextmanager
def loads(engine: str, model: object) -> Iterator[None]:
    """Load an engine's weights in this context. Raises `SetupError` for the engine's errors."""
    try:
        yield
    except Exception as error:
        # Engines have their own errors: vLLM's is neither a ValueError nor a RuntimeError.
        raise SetupError(
            f"{engine} cannot load {str(model)!r} ({describe_error(error)}); check the folder and "
            f"engine_args; the log above has {engine}'s own message."
        ) from error


# The folder of each engine, and the class in its `offline.py`.
ENGINES = {
    "hf": ("transformers", "HfBackend"),
    "vllm": ("vllm", "VllmBackend"),
    "sglang": ("sglang", "SglangBackend"),
}
# The packages whose versions may change an answer.
PACKAGES = {"hf": ("transformers", "torch"), "vllm": ("vllm",), "sglang": ("sglang",)}
# The back end without a model.
REPLAY = ("replay", "backedge.testing.offline", "ReplayBackend")


def backend_class(name: str) -> type[Backend]:
    """Return the class of a back end, without importing torch or an engine.

    Raises `SetupError` for an engine whose folder is missing.
    """
    if name == REPLAY[0]:
        module, attribute = importlib.import_module(REPLAY[1]), REPLAY[2]
    else:
        folder, attribute = ENGINES[name]
        module = load_engine_module(folder, "offline")
    found: type[Backend] = getattr(module, attribute)
    return found


def describe_model(config: ModelLoadConfig) -> JsonObject:
    """Return what shows that the model or a package has changed, by the names in errors.

    For a folder, this is a digest of its files' names, sizes and times, of config.json, and of the
    configured template. For a model of the hub it is the revision: its weights may come later.
    """
    folder = find_folder(str(config.model), config.revision)
    digest = hashlib.sha256(folder.name.encode())
    read = [config.chat_template] if config.chat_template else []
    folders = [Path(adapter) for adapter in config.lora.values()]
    if Path(config.model).exists():
        folders.append(folder)
        read.append(folder / "config.json")
    for path in sorted(file for each in folders for file in each.iterdir() if file.is_file()):
        found = path.stat()
        digest.update(f"{path.name}\n{found.st_size}\n{found.st_mtime_ns}\n".encode())
    for path in map(Path, read):
        digest.update(path.read_bytes() if path.is_file() else b"")
    names = ("backedge", *PACKAGES.get(config.backend, ()))
    versions = {name: importlib.metadata.version(name) for name in names}
    return {"model files": digest.hexdigest()[:16], "versions": versions}


def able_backends(capability: str) -> list[str]:
    """Return the names of the back ends with this capability."""
    able = []
    for name in BACKENDS:
        with contextlib.suppress(SetupError):
            if capability in backend_class(name).capabilities:
                able.append(name)
    return able
