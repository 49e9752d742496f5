"""A tokenizer class by its name: imported and constructed on first use, once per process."""

from __future__ import annotations

import importlib
import inspect
import logging
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

import msgspec

from ..parsers.errors import SetupError
from .checked import CheckedTokenizer
from .errors import Stage, TokenizerLoadError, described

logger = logging.getLogger(__name__)

REQUIRED = ("encode", "encode_batch", "decode")


class Source(msgspec.Struct, frozen=True):
    """Which class, and what it is constructed with."""

    module: str
    class_name: str
    model_path: str

    @property
    def name(self) -> str:
        """What logs and errors call it."""
        return f"{self.module}:{self.class_name}"

    def failed(self, stage: Stage, reason: str) -> TokenizerLoadError:
        """Return the error of this class that did not get further than `stage`."""
        return TokenizerLoadError(self.name, self.model_path, stage, reason)


def split_name(name: str) -> tuple[str, str]:
    """Return module and class of `package.module:Class`. Raises `SetupError` for any other form."""
    module, colon, class_name = name.partition(":")
    if not (module and colon and class_name):
        raise SetupError(f"{name!r} names no class; write it as package.module:Class.")
    return module, class_name


def load(module: str, class_name: str, model_path: str | Path) -> LazyTokenizer:
    """Return the tokenizer `class_name` of `module` for a model; nothing is imported yet.

    The same three arguments give the same tokenizer for as long as anybody holds it,
    so a process constructs it once; with the last holder it goes.
    """
    source = Source(module, class_name, str(model_path))
    with _loading:
        tokenizer = _loaded.get(source)
        if tokenizer is None:
            tokenizer = _loaded[source] = LazyTokenizer(source)
        return tokenizer


class LazyTokenizer(CheckedTokenizer):
    """See `CheckedTokenizer`; also raises `TokenizerLoadError`, from whatever is asked of it first.

    A failure to load is remembered, not retried: the same module and files would fail
    again, and each request would wait seconds for that, one behind the other. A model
    that comes back is a new `load`, which tries again.
    Pickled as its names, and loaded where it is unpickled.
    """

    def __init__(self, source: Source) -> None:
        super().__init__(source.name)
        self.source = source
        self._constructing = threading.RLock()
        self._failure: tuple[Stage, str] | None = None

    def get(self) -> Any:
        """Return the instance of the user's class, constructed by the first thread that asks."""
        if self._inner is None:
            with self._constructing:
                if self._inner is None:
                    self._inner = self._construct()
        return self._inner

    def _construct(self) -> Any:
        if self._failure is not None:
            # A new error each time: one that is raised again and again keeps every traceback.
            raise self.source.failed(*self._failure)
        # For a constructor that asks for its own tokenizer, which comes back here.
        self._failure = ("constructed", "its constructor asks for this very tokenizer")
        try:
            tokenizer = construct(self.source)
        except TokenizerLoadError as error:
            self._failure = (error.stage, error.reason)
            logger.exception("requests for this model will get HTTP 503")
            raise
        self._failure = None
        return tokenizer

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return load, (self.source.module, self.source.class_name, self.source.model_path)

    def __repr__(self) -> str:
        return f"LazyTokenizer({self.source.name}, {self.source.model_path!r})"


def construct(source: Source) -> Any:
    """Return a new instance of the class. Raises `TokenizerLoadError`."""
    tokenizer_class = find_class(source)
    try:
        tokenizer = tokenizer_class(source.model_path)
    except (Exception, SystemExit) as error:
        raise source.failed("constructed", described(error)) from error
    missing = [method for method in REQUIRED if not callable(getattr(tokenizer, method, None))]
    if missing:
        raise source.failed(
            "found", f"it has no {', '.join(missing)}; BaseTokenizer brings encode_batch"
        )
    return tokenizer


def find_class(source: Source) -> type:
    """Import the class. Raises `TokenizerLoadError`."""
    try:
        module = importlib.import_module(source.module)
    # A script without a main guard may end by sys.exit(); that must not end a worker.
    except (Exception, SystemExit) as error:
        raise source.failed("imported", described(error)) from error
    found = getattr(module, source.class_name, None)
    if isinstance(found, type):
        return found
    if found is not None:
        raise source.failed("found", f"{source.class_name} is no class but {found!r}")
    known = [
        name
        for name, value in vars(module).items()
        if isinstance(value, type) and hasattr(value, "encode")
    ]
    usable = ", ".join(name for name in known if not inspect.isabstract(vars(module)[name]))
    raise source.failed(
        "found", f"the module has no {source.class_name}; its tokenizers: {usable or 'none'}"
    )


_loading = threading.Lock()
_loaded: WeakValueDictionary[Source, LazyTokenizer] = WeakValueDictionary()
