"""The small files of a model's folder: tokenizer, chat template, settings of generation."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from msgspec import UNSET, UnsetType
from tokenizers import Tokenizer

from ..base.errors import SetupError
from ..base.json_types import JsonObject
from ..tokenization.prompt_cache import PromptCache
from ..tokenization.prompt_encoder import PromptEncoder
from ..tokenization.prompt_limit import PromptLimit
from .chat_template import DEFAULT, ChatTemplate

T = TypeVar("T")

TokenIds = int | list[int]


class GenerationConfig(msgspec.Struct, frozen=True):
    """generation_config.json: end-of-sequence tokens, and defaults of sampling; None if unset."""

    eos_token_id: TokenIds | UnsetType | None = UNSET
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    repetition_penalty: float | None = None
    frequency_penalty: float | None = None
    presence_penalty: float | None = None


class TextConfig(msgspec.Struct, frozen=True):
    """The settings of a language model in config.json."""

    eos_token_id: TokenIds | UnsetType | None = UNSET
    max_position_embeddings: int | UnsetType | None = UNSET
    vocab_size: int | UnsetType | None = UNSET


class ModelConfig(TextConfig, frozen=True):
    """config.json. text_config: of the language model inside a model that also reads images."""

    text_config: TextConfig | None = None


class NamedTemplate(msgspec.Struct, frozen=True):
    """One of a model's several chat templates."""

    name: str
    template: str


class TemplateConfig(msgspec.Struct, frozen=True):
    """chat_template.json, or the templates in tokenizer_config.json."""

    chat_template: str | list[NamedTemplate] | None = None


class ModelFolder:
    """The small files of a folder, whatever tokenizer the model has.

    folder: any of the files may be missing.
    engine: of the model's workers; prompts are made as its server makes them.
    token_id: returns the id of a token's text, None if the tokenizer has no such token.
    context_length: of the workers, in tokens; None for the model's own.
    Raises `SetupError` for a file that is not JSON of the expected types.
    """

    def __init__(
        self,
        folder: str | Path,
        engine: str = "vllm",
        token_id: Callable[[str], int | None] = lambda _: None,
        context_length: int | None = None,
    ) -> None:
        self.folder = Path(folder)
        self._workers_context_length = context_length
        self._engine = engine
        self._token_id = token_id
        self.generation_config = self._read("generation_config.json", GenerationConfig)

    @functools.cached_property
    def eos_token_ids(self) -> list[int]:
        """The tokenizer's end-of-sequence token; if it names none, those of the model."""
        name = self.special_tokens.get("eos_token")
        token_id = self._token_id(name) if name else None
        return [token_id] if token_id is not None else self.further_eos_token_ids

    @functools.cached_property
    def further_eos_token_ids(self) -> list[int]:
        """The end-of-sequence tokens in generation_config.json, else in config.json."""
        found = self.generation_config.eos_token_id
        if found is UNSET:
            found = self._config.eos_token_id
        if found is UNSET or found is None:
            return []
        return [found] if isinstance(found, int) else found

    @functools.cached_property
    def context_length(self) -> int | None:
        """The limit on tokens of prompt and output; None if config.json has none."""
        length = self._workers_context_length or self._config.max_position_embeddings
        return None if length is UNSET else length

    @property
    def prompt_limit(self) -> PromptLimit:
        """What tells that a prompt is too long before all of it is tokenized."""
        return PromptLimit(self.context_length)

    @functools.cached_property
    def vocabulary_size(self) -> int | None:
        """The number of tokens that the engine knows; None if config.json does not say."""
        size = self._config.vocab_size
        return None if size is UNSET else size

    def load_template(self, given: str | None = None) -> ChatTemplate:
        """Return the model's chat template.

        given: path of a Jinja file to use instead of the model's own.
        Raises `SetupError` if there is no template.
        """
        return ChatTemplate(self.read_templates(given), self.special_tokens, self._engine)

    @functools.cached_property
    def _config(self) -> TextConfig:
        config = self._read("config.json", ModelConfig)
        if (text := config.text_config) is None:
            return config
        return TextConfig(
            text.eos_token_id if config.eos_token_id is UNSET else config.eos_token_id,
            text.max_position_embeddings
            if config.max_position_embeddings is UNSET
            else config.max_position_embeddings,
            text.vocab_size if config.vocab_size is UNSET else config.vocab_size,
        )

    @functools.cached_property
    def special_tokens(self) -> dict[str, str]:
        """The texts of all `*_token` entries, as chat templates use them."""
        entries = {
            **self._read("special_tokens_map.json", dict[str, object]),
            **self._read("tokenizer_config.json", dict[str, object]),
        }
        texts = {
            name: token["content"] if isinstance(token, dict) and "content" in token else token
            for name, token in entries.items()
            if name.endswith("_token")
        }
        return {name: text for name, text in texts.items() if isinstance(text, str)}

    def read_templates(self, given: str | None = None) -> dict[str, str]:
        """Return the sources of the chat templates by name, from the first place that has any.

        given: as for `load_template`, whose errors this raises.
        """
        path = Path(given) if given else self.folder / "chat_template.jinja"
        if given or path.is_file():
            try:
                return {DEFAULT: path.read_text(encoding="utf-8")}
            except (OSError, UnicodeDecodeError) as error:
                raise SetupError(
                    f"{path} cannot be read as a chat template ({error}); name a Jinja file."
                ) from error
        for name in ("tokenizer_config.json", "chat_template.json"):
            found = self._read(name, TemplateConfig).chat_template
            if isinstance(found, str):
                return {DEFAULT: found}
            if found:
                return {entry.name: entry.template for entry in found}
        raise SetupError(
            f"{self.folder} has no chat template; name a Jinja file with --chat-template."
        )

    def _read(self, name: str, content: type[T]) -> T:
        """Return the content of a JSON file; without such a file, that of `{}`."""
        path = self.folder / name
        try:
            return msgspec.json.decode(path.read_bytes() if path.is_file() else b"{}", type=content)
        except msgspec.DecodeError as error:
            raise SetupError(f"{path} cannot be used: {error}.") from error


def read_vocabulary_size(folder: str | Path) -> int | None:
    """Return the number of tokens that a model's engine knows; None if config.json does not say.

    Files that cannot be read are for others to complain of: not every tokenizer needs them.
    """
    try:
        return ModelFolder(folder).vocabulary_size
    except SetupError:
        return None


def load_tokenizer_json(folder: str | Path) -> Tokenizer:
    """Return the tokenizer in a folder's tokenizer.json. Raises `SetupError` if there is none."""
    path = Path(folder) / "tokenizer.json"
    if not path.is_file():
        raise SetupError(
            f"{folder} has no tokenizer.json, which --tokenizer-backend huggingface reads; "
            "choose vllm or sglang, which read other tokenizers, too, or python for one of "
            "your own that encodes and decodes text."
        )
    tokenizer = Tokenizer.from_file(str(path))
    # A tokenizer.json may have these settings left over from training.
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return tokenizer


class ModelFiles(ModelFolder):
    """A folder with tokenizer.json and a chat template.

    chat_template: path of a Jinja file to use instead of the model's own.
    cache: of prompts that are made here; None to remember none.
    Raises `SetupError` for a folder without tokenizer.json or without any template.
    """

    def __init__(
        self,
        folder: str | Path,
        chat_template: str | None = None,
        engine: str = "vllm",
        context_length: int | None = None,
        cache: PromptCache | None = None,
    ) -> None:
        self.tokenizer = load_tokenizer_json(folder)
        self.encoder = PromptEncoder(self.tokenizer, cache)
        super().__init__(folder, engine, self.tokenizer.token_to_id, context_length)
        self.template = self.load_template(chat_template)

    def encode(self, text: str) -> list[int]:
        """Return the token ids of rendered text, in which special tokens are written out."""
        return self.encoder.encode(text)

    def prompt_token_ids(
        self,
        messages: list[JsonObject],
        tools: list[JsonObject] | None,
        *,
        model: str = "",
        **template_kwargs: Any,
    ) -> list[int]:
        """Return the prompt of a conversation.

        Raises `RequestError` if the template raises, and for a prompt that is far too long.
        """
        text = self.template.render(messages, tools, **template_kwargs)
        self.prompt_limit.check(text, lambda part: len(self.encoder.encode_whole(part)))
        return self.encode(text)
