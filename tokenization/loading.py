"""Loads a tokenizer class by name: imported and constructed on first use, once per process."""

from __future__ import annotations

import importlib
import inspect
import logging
import threading
from collections.abc import Callable
from pathlib import Path
from weakref import WeakValueDictionary

import msgspec
from typing_extensions import override

from ..base.errors import SetupError
from .checked import CheckedTokenizer
from .errors import Stage, TokenizerLoadError, describe_error
from .protocol import BaseTokenizer, TokenizerProtocol, find_missing

logger = logging.getLogger(__name__)


class Source(msgspec.Struct, frozen=True):
    """The class or function that makes the tokenizer, and its argument."""

    module: str
    class_name: str
    model_path: str

    @property
    def name(self) -> str:
        """`module:Class`, as in logs and errors."""
        return f"{self.module}:{self.class_name}"

    def load_error(self, stage: Stage, reason: str) -> TokenizerLoadError:
        """Build the error for a failure at `stage`."""
        return TokenizerLoadError(self.name, self.model_path, stage, reason)


def split_name(name: str) -> tuple[str, str]:
    """Return module and class of `package.module:Class`. Raises `SetupError` for other forms."""
    module, colon, class_name = name.partition(":")
    if not (module and colon and class_name):
        raise SetupError(f"{name!r} does not name a class; write it as package.module:Class.")
    return module, class_name


def load(module: str, class_name: str, model_path: str | Path) -> LazyTokenizer:
    """Return the tokenizer `class_name` of `module` for a model, without importing it yet.

    Equal arguments give the same tokenizer while it is referenced, so a process constructs it
    once. Without references it is freed.
    """
    source = Source(module, class_name, str(model_path))
    with _loading:
        tokenizer = _loaded.get(source)
        if tokenizer is None:
            tokenizer = _loaded[source] = LazyTokenizer(source)
        return tokenizer


class LazyTokenizer(CheckedTokenizer):
    """A checked tokenizer whose first use imports and constructs the class.

    Any first use may therefore raise `TokenizerLoadError`.
    A failed load is not retried: the same module and files would fail again after requests had
    waited seconds, one after the other. A model that comes back calls `load` again, which
    retries.
    It is pickled as its names and loads the class where it is unpickled.
    """

    def __init__(self, source: Source) -> None:
        super().__init__(source.name)
        self.source = source
        self._constructing = threading.RLock()
        self._failure: tuple[Stage, str] | None = None

    @override
    def unwrap(self) -> object:
        # The first thread constructs; the others wait for it.
        if self._inner is None:
            with self._constructing:
                if self._inner is None:
                    self._inner = self._construct()
        return self._inner

    def _construct(self) -> object:
        if self._failure is not None:
            # A new error each time: raising the same error again would keep every traceback.
            raise self.source.load_error(*self._failure)
        # For a constructor that loads its own tokenizer and so calls this method again.
        self._failure = ("constructed", "its constructor asks for this very tokenizer")
        try:
            tokenizer = construct(self.source)
        except TokenizerLoadError as error:
            self._failure = (error.stage, error.reason)
            logger.exception("requests for this model will get HTTP 503")
            raise
        self._failure = None
        return tokenizer

    @override
    def __reduce__(self) -> tuple[Callable[..., object], tuple[object, ...]]:
        return load, (self.source.module, self.source.class_name, self.source.model_path)

    @override
    def __repr__(self) -> str:
        return f"LazyTokenizer({self.source.name}, {self.source.model_path!r})"


def create(source: Source) -> object:
    """Call the class or function with the model's path. Raises `TokenizerLoadError`."""
    make = find_class(source)
    try:
        tokenizer = make(source.model_path)
    except (Exception, SystemExit) as error:
        raise source.load_error("constructed", describe_error(error)) from error
    return tokenizer


def construct(source: Source) -> object:
    """Construct a new tokenizer. Raises `TokenizerLoadError`."""
    tokenizer = create(source)
    missing = find_missing(tokenizer)
    if missing and not isinstance(tokenizer, TokenizerProtocol):
        reason = f"it has no {', '.join(missing)}; BaseTokenizer has encode_batch"
        raise source.load_error("found", reason)
    return tokenizer


def find_class(source: Source) -> Callable[[str], object]:
    """Import the class or function. Raises `TokenizerLoadError`."""
    try:
        module = importlib.import_module(source.module)
    # Importing a script without a main guard may call sys.exit(), which must not end a worker.
    except (Exception, SystemExit) as error:
        raise source.load_error("imported", describe_error(error)) from error
    found = getattr(module, source.class_name, None)
    if isinstance(found, type) or inspect.isroutine(found):
        make: Callable[[str], object] = found
        return make
    if found is not None:
        reason = f"{source.class_name} is neither a class nor a function but {found!r}"
        raise source.load_error("found", reason)
    known = [
        name
        for name, value in vars(module).items()
        if isinstance(value, type)
        and value is not BaseTokenizer
        and (hasattr(value, "encode") or hasattr(value, "tokenize"))
        and not inspect.isabstract(value)
    ]
    names = ", ".join(known) or "none"
    raise source.load_error(
        "found", f"the module has no {source.class_name}; its tokenizers: {names}"
    )


_loading = threading.Lock()
_loaded: WeakValueDictionary[Source, LazyTokenizer] = WeakValueDictionary()
