"""What a back end is, and what it can do.

A back end makes token ids and feeds them to the completions of its rows. It decodes nothing, cuts
nothing and parses nothing.
"""

from __future__ import annotations

import abc
import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from ..base.errors import RequestError, SetupError
from ..parsers.base import ParserFactory, ParserNames
from ..parsers.parser_lookup import linear_parsers
from ..tokenization.detokenizer import read_vocabulary
from ..tokenization.errors import describe_error
from ..tokenization.model_files import GenerationConfig
from ..tokenization.prompt_limit import PromptLimit
from .contracts import GenerationOptions, ModelLoadConfig, TextGenerationRequest
from .conversation import render_conversation
from .errors import BackendUnavailableError, UnknownOptionError
from .plugins.base import Plugin
from .rows import Prompt, Row, RowFailure

# What requests, options and plugins may ask of a back end.
VLM = "vlm"
LOGPROBS = "logprobs"
GUIDED = "guided"
LOGITS = "logits"
CAPABILITIES = (VLM, LOGPROBS, GUIDED, LOGITS)


@dataclass
class ModelText:
    """What a model's text needs, and no weights.

    tokenizer: as for `detokenizers`.
    render, encode: a conversation to text, and the text to token ids; special tokens are written
        out. encode_plain: text that no template has made.
    context_length: tokens of prompt and answer; None if unknown.
    """

    tokenizer: object
    render: Callable[..., str]
    encode: Callable[[str], list[int]]
    encode_plain: Callable[[str], list[int]]
    eos_token_ids: Sequence[int] = ()
    context_length: int | None = None
    generation_config: GenerationConfig = field(default_factory=GenerationConfig)

    def check_length(self, prompt: str, encode: Callable[[str], list[int]]) -> None:
        """Raise `RowFailure` for a text that is far too long, before all of it is tokenized."""
        try:
            PromptLimit(self.context_length).check(prompt, lambda part: len(encode(part)))
        except RequestError as error:
            raise RowFailure("prompt_too_long", str(error)) from error


class Backend(abc.ABC):
    """Generates rows. Made with the configuration, which it checks; weights come with `load`.

    name: as in `ModelLoadConfig.backend`. capabilities: of this kind of back end, with all that
        may be installed. installs: what pip installs for a capability that needs it.
    Raises `SetupError` and its kinds for an option that it does not take, and
    `BackendUnavailableError` where its library is missing.
    """

    name: ClassVar[str]
    capabilities: ClassVar[frozenset[str]]
    installs: ClassVar[Mapping[str, str]] = {}

    def __init__(self, config: ModelLoadConfig, plugins: Sequence[Plugin] = ()) -> None:
        self.config = config
        self.plugins = list(plugins)
        self.batch_plugins: Sequence[Plugin] = ()

    def can(self, capability: str) -> bool:
        """Whether it has a capability here, with what is installed."""
        return capability in self.capabilities

    def use_plugins(self, plugins: Sequence[Plugin]) -> None:
        """Take the plugins of the next batch.

        Raises `PluginError` for those that had to be known when weights load.
        """
        self.batch_plugins = plugins

    def check_vision(self) -> None:  # noqa: B027 - most see nothing and are never asked
        """Raise `SetupError` if the model reads no images."""

    @abc.abstractmethod
    def open(self) -> ModelText:
        """Return the model's tokenizer and settings; weights stay where they are.

        Raises `SetupError` for a model that is not there or not whole.
        """

    @abc.abstractmethod
    def load(self) -> None:
        """Load the weights, once."""

    @abc.abstractmethod
    def generate(self, rows: Iterator[Row]) -> Iterator[Row]:
        """Generate rows, and yield each when it has finished or failed.

        rows: read as the back end has room for them; one that has failed already is yielded at
            once. Closing the iterator ends the work.
        """

    def close(self) -> None:  # noqa: B027 - not all hold anything
        """Free what `load` has taken."""

    def build_prompt(
        self, text: ModelText, request: TextGenerationRequest, options: GenerationOptions
    ) -> Prompt:
        """Return the prompt of a row. Raises `RequestError`, `RowFailure` and `TokenizerError`."""
        if request.prompt is not None:
            rendered, encode = request.prompt, text.encode_plain
        else:
            rendered, encode = render_conversation(text.render, request, options), text.encode
        if options.truncate_prompt_tokens is None:
            text.check_length(rendered, encode)
        return Prompt(encode(rendered), rendered)

    def build_parsers(self, names: ParserNames, tokenizer: object) -> ParserFactory:
        """Return the parsers of these names. Raises `UnknownParserError`."""
        return linear_parsers(names, read_vocabulary(tokenizer))


def check_names(owner: str, given: Mapping[str, Any], known: Sequence[str]) -> None:
    """Raise `UnknownOptionError` for an option that `owner` does not have."""
    for name in given:
        if name not in known:
            raise UnknownOptionError(owner, name, known)


@contextlib.contextmanager
def needs(backend: str, library: str, packages: str) -> Iterator[None]:
    """Import a back end's library within. packages: what pip installs.

    Raises `BackendUnavailableError` if it is not there.
    """
    try:
        yield
    except ImportError as error:
        raise BackendUnavailableError(
            f"the back end {backend!r} needs {library} ({error}); pip install {packages}."
        ) from error


@contextlib.contextmanager
def loads(engine: str, model: object) -> Iterator[None]:
    """Load an engine's weights within. Raises `SetupError` for what the engine refuses."""
    try:
        yield
    except Exception as error:
        # Engines have errors of their own: vLLM's is neither a ValueError nor a RuntimeError.
        raise SetupError(
            f"{engine} cannot load {str(model)!r} ({describe_error(error)}); check the folder and "
            f"engine_args; the log above has {engine}'s own words."
        ) from error
