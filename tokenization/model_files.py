"""Reads the small files in a model's folder: tokenizer.json and the configurations."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import msgspec
from msgspec import UNSET, UnsetType
from tokenizers import Tokenizer

from ..base.errors import SetupError
from ..base.json_types import check_nesting
from .prompt_cache import PromptLimit

T = TypeVar("T")
# In the names of fields of config.json.
_MEDIA = re.compile("vision|visual|image|video|audio")

TokenIds = int | list[int]
# The files that a model's text needs. The engine's own code downloads weights.
SMALL_FILES = ["*.json", "*.jinja", "*.model", "*.txt", "*.model.v*", "*.tiktoken", "*.py"]


# For values that neither a request nor the model's generation_config.json defines.
SAMPLING_DEFAULTS = {
    "temperature": 1.0,
    "top_p": 1.0,
    "min_p": 0.0,
    "presence_penalty": 0.0,
    "frequency_penalty": 0.0,
    "repetition_penalty": 1.0,
}


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

    def resolve(self, request: object, name: str) -> float:
        """Return a field of `request`, else the model's value, else the default."""
        values = getattr(request, name), getattr(self, name), SAMPLING_DEFAULTS[name]
        return next(value for value in values if value is not None)


class TextConfig(msgspec.Struct, frozen=True):
    """The settings of a language model in config.json."""

    eos_token_id: TokenIds | UnsetType | None = UNSET
    max_position_embeddings: int | UnsetType | None = UNSET
    vocab_size: int | UnsetType | None = UNSET


class ModelConfig(TextConfig, frozen=True):
    """config.json. text_config: of the language model inside a model that also reads images."""

    text_config: TextConfig | None = None


class ModelFolder:
    """The small files of a folder, whatever tokenizer the model has.

    folder: any of the files may be missing.
    token_id: returns the id of a token's text; None if the tokenizer has no such token.
    context_length: the workers' limit in tokens; None for the model's own.
    Raises `SetupError` for a file that is not JSON of the expected types.
    """

    def __init__(
        self,
        folder: str | Path,
        token_id: Callable[[str], int | None] = lambda _: None,
        context_length: int | None = None,
    ) -> None:
        self.folder = Path(folder)
        self._workers_context_length = context_length
        self._token_id = token_id
        self.generation_config = self.read("generation_config.json", GenerationConfig)

    @functools.cached_property
    def eos_token_ids(self) -> list[int]:
        """The tokenizer's end-of-sequence token, or the model's if the tokenizer names none."""
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
        """Rejects a prompt that is too long before all of it is tokenized."""
        return PromptLimit(self.context_length)

    @functools.cached_property
    def vocabulary_size(self) -> int | None:
        """The number of tokens that the engine knows; None if config.json does not say."""
        size = self._config.vocab_size
        return None if size is UNSET else size

    @functools.cached_property
    def _config(self) -> TextConfig:
        config = self.read("config.json", ModelConfig)
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
        """The texts of all `*_token` entries, which chat templates write."""
        entries = {
            **self.read("special_tokens_map.json", dict[str, object]),
            **self.read("tokenizer_config.json", dict[str, object]),
        }
        texts = {
            name: token["content"] if isinstance(token, dict) and "content" in token else token
            for name, token in entries.items()
            if name.endswith("_token")
        }
        return {name: text for name, text in texts.items() if isinstance(text, str)}

    def read(self, name: str, content: type[T]) -> T:
        """Return the content of a JSON file; without such a file, that of `{}`."""
        path = self.folder / name
        try:
            text = path.read_bytes() if path.is_file() else b"{}"
            return msgspec.json.decode(check_nesting(text), type=content)
        except msgspec.DecodeError as error:
            raise SetupError(f"{path} cannot be used: {error}.") from error


def takes_media(folder: ModelFolder) -> bool:
    """Whether a model's config.json describes the reading of images, videos or audio."""
    names = folder.read("config.json", dict[str, object])
    return any(_MEDIA.search(name) is not None for name in names)


def has_mistral_tokenizer(folder: Path) -> bool:
    """Whether a folder has the files of mistral-common."""
    return any(any(folder.glob(pattern)) for pattern in ("tekken.json", "tokenizer.model.v*"))


def needs_mistral(folder: Path) -> bool:
    """Whether only mistral-common can read a folder's tokenizer."""
    return has_mistral_tokenizer(folder) and not (folder / "tokenizer.json").is_file()


def find_folder(model: str, revision: str | None = None) -> Path:
    """Return the folder with a model's small files, downloading them if it is not local.

    Raises `SetupError` if they are not found.
    """
    path = Path(model)
    if path.is_dir():
        return path
    if path.is_file():
        return path.parent  # of a weights file; its folder may have the others
    if model.startswith((".", "/", "~")) or model.count("/") > 1:
        raise SetupError(f"{model!r}: no such folder; name a folder, or a model on the hub.")
    try:
        from huggingface_hub import snapshot_download
    except ImportError as error:
        raise SetupError(
            f"{model!r} is not a folder, and huggingface_hub, which downloads models, is missing; "
            "name a folder."
        ) from error
    try:
        return Path(snapshot_download(model, revision=revision, allow_patterns=SMALL_FILES))
    except Exception as error:
        # The hub's client raises errors of several libraries.
        reason = str(error).partition("\n")[0]
        raise SetupError(
            f"{model!r} is not a folder, and cannot be downloaded from the hub ({reason}); name "
            "a folder, or a model that can be reached."
        ) from error


def read_vocabulary_size(folder: str | Path) -> int | None:
    """Return the number of tokens that a model's engine knows; None if config.json does not say.

    Files that cannot be read are reported by the code that needs them: not every tokenizer does.
    """
    try:
        return ModelFolder(folder).vocabulary_size
    except SetupError:
        return None


def load_tokenizer_json(folder: str | Path) -> Tokenizer:
    """Return the tokenizer of a folder's tokenizer.json. Raises `SetupError` if it is missing."""
    path = Path(folder) / "tokenizer.json"
    if not path.parent.is_dir():
        raise SetupError(f"'{folder}': no such folder; name a folder with a model's files.")
    if not path.is_file():
        raise SetupError(
            f"{folder} has no tokenizer.json, which --tokenizer-backend huggingface reads; "
            "choose vllm or sglang, which also read other tokenizers, or python for one of your "
            "own that encodes and decodes text."
        )
    tokenizer = Tokenizer.from_file(str(path))
    # Settings of training that a tokenizer.json may still have.
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return tokenizer
