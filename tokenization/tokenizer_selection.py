"""Selects a model's tokenizer: by the frontend's flags, the worker's on the model card, the engine.

Your own worker sets the tokenizer on Dynamo's model card before it registers the model:

    config = ModelRuntimeConfig()
    set_tokenizer_config(config, "python", "my_package.tokenizers", "MyTokenizer")
    await register_model(..., runtime_config=config)
"""

from __future__ import annotations

import argparse
import importlib.util
import json
from collections.abc import Mapping
from operator import methodcaller
from pathlib import Path
from typing import Literal, NamedTuple, Protocol, Self, get_args

import msgspec

from ..base.engines import has_engine, load_engine_module
from ..base.errors import SetupError
from ..base.flags import Flag, flag
from ..base.json_types import JsonObject, check_nesting
from .custom_tokenizer import Source, find_class, load
from .model_files import load_tokenizer_json

Backend = Literal["huggingface", "vllm", "sglang", "python"]
BACKENDS: tuple[Backend, ...] = get_args(Backend)
BACKEND_FLAG = "--tokenizer-backend"
MODULE_FLAG, CLASS_FLAG = "--tokenizer-module", "--tokenizer-class"
# Only for the frontend: a module that a worker may name on its model card.
ALLOW_MODULE_FLAG = "--allow-tokenizer-module"
FLAGS: tuple[Flag, ...] = (
    flag(
        BACKEND_FLAG,
        choices=BACKENDS,
        help="The renderer and tokenizer: 'huggingface': the model's tokenizer.json and "
        "chat template; 'vllm', 'sglang': the engine's own renderer and tokenizers; 'python': "
        "your class. Default: what the model's workers name; else 'huggingface' where the model "
        "has its files, Mistral's own tokenizer where it has that, or the workers' engine.",
    ),
    flag(
        MODULE_FLAG,
        help=f"For {BACKEND_FLAG} python: the module of the class, importable on both sides.",
    ),
    flag(
        CLASS_FLAG,
        help=f"For {BACKEND_FLAG} python: the class; it is called with the model's path.",
    ),
)


class TokenizerSelection(msgspec.Struct, frozen=True):
    """The values of the flags. backend: None if not set. module, class_name: the user's class.

    mode, config_format: vLLM's flags of these names, as the worker has loaded the model.
    """

    backend: Backend | None = None
    module: str | None = None
    class_name: str | None = None
    mode: str | None = None
    config_format: str | None = None

    @classmethod
    def vllm(cls) -> Self:
        """Select vLLM's tokenizers."""
        return cls("vllm")

    @classmethod
    def sglang(cls) -> Self:
        """Select SGLang's tokenizers."""
        return cls("sglang")

    @classmethod
    def new(cls, python_module: str, python_class: str) -> Self:
        """Select the user's class."""
        return cls("python", python_module, python_class)

    @property
    def tokenizer_backend(self) -> Backend | None:
        """The back end, by the name of its flag."""
        return self.backend

    @property
    def tokenizer_python_module(self) -> str | None:
        """The module of the user's class."""
        return self.module

    @property
    def tokenizer_python_class(self) -> str | None:
        """The user's class."""
        return self.class_name

    @property
    def label(self) -> str:
        """The selection for log lines, or "default"."""
        named = f" {self.module}:{self.class_name}" if self.module else ""
        return f"{self.backend}{named}" if self.backend else "default"

    def check_class(self, model: str = "") -> None:
        """Raise `TokenizerLoadError` for a class of the user's that cannot be imported."""
        if self.module and self.class_name:
            find_class(Source(self.module, self.class_name, model))

    def check(self, module_name: str = MODULE_FLAG, class_name: str = CLASS_FLAG) -> None:
        """Raise `SetupError` unless a class is named if, and only if, the back end is "python".

        module_name, class_name: the names of these values in the error.
        """
        for name, value in {module_name: self.module, class_name: self.class_name}.items():
            if self.backend == "python" and not value:
                raise SetupError(
                    f"{BACKEND_FLAG} python needs {name}: the tokenizer is a class of yours."
                )
            if self.backend != "python" and value:
                raise SetupError(
                    f"{name} {value!r} is for {BACKEND_FLAG} python, which is not set; add it, or "
                    f"leave {name} out."
                )


MISTRAL_MODE = "mistral"
MISTRAL_MODULE = "backedge.tokenization.mistral"
MISTRAL = TokenizerSelection("python", MISTRAL_MODULE, "MistralTokenizer")
"""mistral-common, without an engine."""


class TokenizerFiles(NamedTuple):
    """The back ends that a model's files suffice for.

    huggingface: they have all that "huggingface" needs, and the model needs no engine's parsers.
    mistral: they have a tokenizer of mistral-common alone.
    """

    huggingface: bool = False
    mistral: bool = False


def parse_tokenizer_flags(arguments: argparse.Namespace) -> TokenizerSelection:
    """Return the values of parsed flags. Raises `SetupError` if they contradict each other."""
    # SGLang has a flag of the same name with other values.
    backend = arguments.tokenizer_backend if arguments.tokenizer_backend in BACKENDS else None
    selection = TokenizerSelection(backend, arguments.tokenizer_module, arguments.tokenizer_class)
    selection.check()
    return selection


def is_installed(backend: Backend) -> bool:
    """Whether this process can use `backend`: "vllm" and "sglang" need that engine's package."""
    if backend not in ("vllm", "sglang"):
        return True
    return has_engine(backend) and importlib.util.find_spec(backend) is not None


def check_installed(backend: Backend, module: str | None = None) -> None:
    """Raise `SetupError` unless this process can use `backend`. module: of the class."""
    if module == MISTRAL_MODULE and importlib.util.find_spec("mistral_common") is None:
        raise SetupError(
            "the model has Mistral's own tokenizer, which needs the package mistral-common, and it "
            "is not installed here; pip install mistral-common, or choose another back end with "
            f"{BACKEND_FLAG} of the frontend."
        )
    if not is_installed(backend):
        raise SetupError(
            f"{BACKEND_FLAG} {backend}: {backend} is not installed here; install it, or choose "
            "another back end with that flag of the frontend."
        )


def select_tokenizer(
    flags: TokenizerSelection,
    worker: TokenizerSelection,
    engine: str | None,
    files: TokenizerFiles,
) -> tuple[Backend, TokenizerSelection]:
    """Return the back end for a model, and the flags that selected it.

    flags: the frontend's. worker: advertised by the model's workers.
    engine: of these workers; None for workers without the plugin.
    Without flags, the first that `files` suffice for: "huggingface", mistral-common, the engine.
    Raises `SetupError` for a back end that is not installed here.
    """
    mode = worker.mode or (MISTRAL_MODE if files.mistral else None)
    selected = flags if flags.backend is not None else worker
    if selected.backend is None and files.mistral:
        selected = MISTRAL
    if selected.backend is not None:
        check_installed(selected.backend, selected.module)
        return selected.backend, msgspec.structs.replace(
            selected, mode=mode, config_format=worker.config_format
        )
    own = None if files.huggingface else find_engine_backend(engine)
    return own or "huggingface", selected


def find_engine_backend(engine: str | None) -> Backend | None:
    """Return the own back end of a model's engine if it is installed here.

    engine: as for `select_tokenizer`.
    """
    engines = ["vllm", "sglang"] if engine is None else [engine]
    return next((name for name in BACKENDS if name in engines and is_installed(name)), None)


def find_advertised(
    flags: TokenizerSelection, engine: str, mode: str | None, config_format: str | None
) -> TokenizerSelection:
    """Return the tokenizer that a worker advertises on its card.

    flags: the worker's. mode, config_format: as it has loaded the model; None for the usual ones.
    """
    if mode is None:
        return flags
    if flags.backend is None:
        own = engine if engine in BACKENDS else None
        flags = MISTRAL if mode == MISTRAL_MODE else TokenizerSelection(own)
    return msgspec.structs.replace(flags, mode=mode, config_format=config_format)


def create_tokenizer_from_config(
    config: TokenizerSelection, model_path: str | Path, *, trust_remote_code: bool = False
) -> object:
    """Return the selected tokenizer: the user's class, an engine's, or the tokenizer.json.

    Raises `SetupError` for a back end that is not installed here or a missing file, and what the
    engine raises; a user's class is loaded when it is used.
    """
    config.check()
    if config.module and config.class_name:
        return load(config.module, config.class_name, model_path)
    if config.backend in (None, "huggingface"):
        return load_tokenizer_json(model_path)
    check_installed(config.backend)
    adapter = load_engine_module(config.backend, "worker")
    tokenizer: object = adapter.read_tokenizer(str(model_path), trust_remote_code=trust_remote_code)
    return tokenizer


class VllmTokenizer:
    """vLLM's tokenizer of a model, which also tokenizes conversations. Raises as above."""

    def __init__(self, model_path: str | Path, *, trust_remote_code: bool = False) -> None:
        self._tokenizer = create_tokenizer_from_config(
            TokenizerSelection.vllm(), model_path, trust_remote_code=trust_remote_code
        )

    def tokenize(
        self,
        messages: list[JsonObject],
        model: str | None = None,
        tools: list[JsonObject] | None = None,
    ) -> list[int]:
        """Return the prompt's token ids, by the model's chat template. model: not needed."""
        # Mistral's tokenizers take it, too; transformers would return a mapping without it.
        options = {"tokenize": True, "add_generation_prompt": True, "return_dict": False}
        apply = methodcaller("apply_chat_template", messages, tools=tools, **options)
        return [*apply(self._tokenizer)]

    def __getattr__(self, name: str) -> object:
        if name.startswith("_"):
            raise AttributeError(name)  # of an object that is being unpickled
        return getattr(self._tokenizer, name)


create_vllm_tokenizer = VllmTokenizer

KEY = "backedge_tokenizer"
"""The name of the entry in the card's `runtime_data`."""


class ModelRuntimeConfig(Protocol):
    """Dynamo's `ModelRuntimeConfig`, part of the model card."""

    def set_engine_specific(self, key: str, value: str) -> None:
        """Put a value, as JSON text, into `runtime_data`."""


class _Entry(msgspec.Struct, omit_defaults=True):
    backend: str
    module: str | None = None
    class_name: str | None = None
    mode: str | None = None
    config_format: str | None = None


def set_tokenizer_config(
    runtime_config: ModelRuntimeConfig,
    backend: str,
    python_module: str | None = None,
    python_class: str | None = None,
    mode: str | None = None,
    config_format: str | None = None,
) -> None:
    """Put a tokenizer on the model card. Call this before registering the model.

    backend: one of `BACKENDS`. python_module, python_class: for "python"; a class of that module,
        which frontends import if they were started with `--allow-tokenizer-module`.
    mode, config_format: vLLM's flags of these names, for frontends with its back end.
    Raises `SetupError` for values that no frontend could use.
    """
    entry = _Entry(backend, python_module, python_class, mode, config_format)
    _check(entry, "python_module", "python_class")
    runtime_config.set_engine_specific(KEY, json.dumps(msgspec.to_builtins(entry)))


def read_tokenizer_config(runtime_config: object) -> TokenizerSelection:
    """Return the tokenizer on a model card; its back end is None if the card has none.

    runtime_config: a worker's `ModelRuntimeConfig`, or what a card's `runtime_config()` returns.
    Raises `SetupError` for an entry that this version does not support.
    """
    if isinstance(runtime_config, Mapping):
        runtime_data = runtime_config.get("runtime_data")
    else:
        runtime_data = getattr(runtime_config, "runtime_data", None)
    written = runtime_data.get(KEY) if isinstance(runtime_data, Mapping) else None
    if written is None:
        return TokenizerSelection()
    try:
        if isinstance(written, str):  # on a worker
            written = msgspec.json.decode(check_nesting(written))
        entry = msgspec.convert(written, _Entry)
    except msgspec.MsgspecError as error:
        raise SetupError(f"the card's entry {KEY} is not a tokenizer: {error}.") from error
    return _check(entry)


def _check(
    entry: _Entry, module_name: str = "module", class_name: str = "class_name"
) -> TokenizerSelection:
    if entry.backend not in BACKENDS:
        raise SetupError(
            f"tokenizer back end {entry.backend!r} is unknown; the known ones are "
            f"{', '.join(BACKENDS)}. Choose one of them on the worker, or on the frontend with "
            f"{BACKEND_FLAG}."
        )
    selection = TokenizerSelection(*msgspec.structs.astuple(entry))
    selection.check(module_name, class_name)
    return selection
