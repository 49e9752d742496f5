"""A user's tokenizer class: loaded by name on first use, with its results validated."""

from __future__ import annotations

import functools
import importlib
import inspect
import threading
from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Annotated, Any
from weakref import WeakValueDictionary

import msgspec
from typing_extensions import override

from ..base.errors import RequestError, SetupError
from ..base.json_types import JsonObject
from ..base.log import get_logger
from .errors import (
    Stage,
    TokenizerFailedError,
    TokenizerLoadError,
    TokenizerResultError,
    describe_error,
)
from .protocol import BaseTokenizer, DynamoTokenizer, TokenizerProtocol, find_missing

logger = get_logger(__name__)

TOKEN_IDS = "list[int], each >= 0"
TokenId = Annotated[int, msgspec.Meta(ge=0)]


class CheckedTokenizer(DynamoTokenizer):
    """Validates `encode`, `encode_batch`, `decode` and the prompts of a tokenizer.

    All other attributes are the tokenizer's own, so the wrapper works wherever a tokenizer
    does, including `detokenizers` and `read_vocabulary`.

    name: of the tokenizer in errors.
    Calls from several threads reach the tokenizer one at a time, unless its class has
    `thread_safe = True`.
    All methods raise `TokenizerFailedError` if the tokenizer raises, and
    `TokenizerResultError` if its result breaks the contract.
    """

    def __init__(self, name: str, inner: object = None) -> None:
        self._name = name
        self._inner = inner
        # Reentrant, because a tokenizer may call itself through `load`.
        self._calling = threading.RLock()

    def unwrap(self) -> object:
        """Return the tokenizer itself."""
        return self._inner

    @property
    def converts_text(self) -> bool:
        """Whether the tokenizer encodes and decodes text, besides `tokenize`."""
        return not find_missing(self.unwrap())

    @override
    def encode(self, text: str) -> list[int]:
        return self._check_token_ids("encode", self._call("encode", text))

    @override
    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        results = self._call("encode_batch", list(texts))
        if not isinstance(results, list) or len(results) != len(texts):
            raise TokenizerResultError(
                self._name, "encode_batch", results, f"a list of {len(texts)} lists of ids"
            )
        return [self._check_token_ids("encode_batch", result) for result in results]

    @override
    def decode(self, token_ids: Sequence[int], skip_special_tokens: bool = True) -> str:
        text = self._call("decode", token_ids, skip_special_tokens=skip_special_tokens)
        return self._check_text("decode", text)

    def prompt_token_ids(
        self,
        messages: list[JsonObject],
        tools: list[JsonObject] | None = None,
        *,
        model: str = "",
        **template_kwargs: object,
    ) -> list[int] | None:
        """Return the prompt of a conversation; None if the tokenizer has no template.

        The caller then renders the model's own template and calls `encode`.
        template_kwargs: the template arguments of the request.
        Raises `RequestError` for messages or template arguments that the tokenizer rejects.
        """
        inner = self.unwrap()
        if (tokenize := getattr(inner, "tokenize", None)) is not None:
            own: dict[str, object] = {"model": model, "tools": tools}
            prompt = self._call_template(tokenize, messages, own, template_kwargs)
            return self._check_token_ids("tokenize", prompt)
        if (template := getattr(inner, "apply_chat_template", None)) is not None:
            prompt = self._call_template(template, messages, {"tools": tools}, template_kwargs)
            return self.encode(self._check_text("apply_chat_template", prompt))
        return None

    def _call_template(
        self,
        method: Callable[..., object],
        messages: list[JsonObject],
        own: dict[str, object],
        template_kwargs: dict[str, object],
    ) -> object:
        given = find_arguments(method, messages, own)
        for name in template_kwargs:
            if name in given or not accepts(method, name):
                why = f"{self._name}.{method.__name__} has no argument {name}"
                raise RequestError.unsupported(f"chat_template_kwargs.{name}", why)
        try:
            with self._turn(self.unwrap()):
                return method(messages, **own, **template_kwargs)
        except RequestError:
            raise
        except ValueError as error:
            raise RequestError.rejected(error, self._name) from error
        except Exception as error:
            raise TokenizerFailedError(self._name, method.__name__, messages, error) from error

    def _call(self, method: str, argument: object, **options: object) -> object:
        inner = self.unwrap()
        try:
            with self._turn(inner):
                result: object = getattr(inner, method)(argument, **options)
        except Exception as error:
            raise TokenizerFailedError(self._name, method, argument, error) from error
        return result

    def _turn(self, inner: object) -> AbstractContextManager[object]:
        """Return the lock that serializes calls of `inner`, if it needs one."""
        return nullcontext() if getattr(inner, "thread_safe", False) is True else self._calling

    def _check_token_ids(self, method: str, result: object) -> list[int]:
        # One call into C: a prompt may have 200,000 ids, and other streams wait for this.
        try:
            if isinstance(result, list):
                return msgspec.convert(result, list[TokenId])
        except msgspec.ValidationError:
            pass
        raise TokenizerResultError(self._name, method, result, TOKEN_IDS)

    def _check_text(self, method: str, result: object) -> str:
        if isinstance(result, str):
            return result
        raise TokenizerResultError(self._name, method, result, "a str")

    def __getattr__(self, name: str) -> Any:
        # Raise for lookups of pickle and copy on an object whose attributes are not yet set.
        if name.startswith("__") or name in {"_inner", "_name", "_calling"}:
            raise AttributeError(name)
        inner = self.unwrap()
        found = getattr(inner, name)
        if not inspect.isroutine(found):
            return found

        @functools.wraps(found)
        def call(*args: object, **kwargs: object) -> object:
            with self._turn(inner):
                return found(*args, **kwargs)

        return call


def find_arguments(
    method: Callable[..., object], messages: object, own: dict[str, object]
) -> Collection[str]:
    """Return the names of the arguments that `method(messages, **own)` passes."""
    try:
        return inspect.signature(method).bind_partial(messages, **own).arguments
    except TypeError:
        return ()  # the call will raise


def accepts(method: Callable[..., object], keyword: str) -> bool:
    """Whether `method` can be called with the argument `keyword`."""
    parameters = inspect.signature(method).parameters.values()
    by_name = {inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY}
    return any(
        parameter.kind is inspect.Parameter.VAR_KEYWORD
        or (parameter.name == keyword and parameter.kind in by_name)
        for parameter in parameters
    )


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
    """Call the class or function with the model's path, if any. Raises `TokenizerLoadError`."""
    make: Callable[..., object] = find_class(source)
    try:
        tokenizer = make(source.model_path) if source.model_path else make()
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
