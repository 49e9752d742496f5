"""The small files of a model's folder: its tokenizer, its chat template, and what it says of generation."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
from tokenizers import Tokenizer

from ..parsers.errors import SetupError
from .chat_template import DEFAULT, ChatTemplate, Message


class ModelFolder:
    """What the small files of a folder say, whatever tokenizer the model has.

    folder: each of its files is read where it is there.
    engine: of the model's workers, by whose server's ways prompts are made.
    token_id: of a token by its text, None for one that the model's tokenizer does not have.
    """

    def __init__(
        self,
        folder: str | Path,
        engine: str = "vllm",
        token_id: Callable[[str], int | None] = lambda _: None,
    ) -> None:
        self.folder = Path(folder)
        self._engine = engine
        self._token_id = token_id
        self.generation_config = self._read("generation_config.json")

    @functools.cached_property
    def eos_token_ids(self) -> list[int]:
        """The end-of-sequence token that the tokenizer names; without one, those of the model."""
        name = self._special_tokens.get("eos_token")
        token_id = self._token_id(name) if name else None
        return [token_id] if token_id is not None else self.further_eos_token_ids

    @functools.cached_property
    def further_eos_token_ids(self) -> list[int]:
        """The end-of-sequence tokens that generation_config.json (or config.json) names."""
        named = self.generation_config.get("eos_token_id", self._config.get("eos_token_id"))
        if named is None:
            return []
        return [named] if isinstance(named, int) else list(named)

    @functools.cached_property
    def context_length(self) -> int | None:
        """Tokens of prompt and output together that the model was made for; None if it does not say."""
        length: int | None = self._config.get("max_position_embeddings")
        return length

    def load_template(self, given: str | None = None) -> ChatTemplate:
        """Return the model's chat template.

        given: path of a Jinja file that takes the place of the model's own.
        Raises `SetupError` if there is none.
        """
        return ChatTemplate(self._templates(given), self._special_tokens, self._engine)

    @functools.cached_property
    def _config(self) -> dict[str, Any]:
        config = self._read("config.json")
        # Models that take images, too, have their language model one level down.
        return {**(config.get("text_config") or {}), **config}

    @functools.cached_property
    def _special_tokens(self) -> dict[str, str]:
        tokens = {**self._read("special_tokens_map.json"), **self._read("tokenizer_config.json")}
        texts = {
            name: token.get("content") if isinstance(token, dict) else token
            for name, token in tokens.items()
        }
        return {
            name: text
            for name, text in texts.items()
            if name.endswith("_token") and isinstance(text, str)
        }

    def _templates(self, given: str | None) -> dict[str, str]:
        """Return the chat templates by name, from the first place that has any."""
        path = Path(given) if given else self.folder / "chat_template.jinja"
        if given or path.is_file():
            try:
                return {DEFAULT: path.read_text(encoding="utf-8")}
            except (OSError, UnicodeDecodeError) as error:
                raise SetupError(
                    f"{path}: it cannot be read as a chat template ({error}); name a Jinja file."
                ) from error
        for name in ("tokenizer_config.json", "chat_template.json"):
            template = self._read(name).get("chat_template")
            if isinstance(template, str):
                return {DEFAULT: template}
            if template:
                return {entry["name"]: entry["template"] for entry in template}
        raise SetupError(
            f"{self.folder} has no chat template; name a Jinja file with --chat-template."
        )

    def _read(self, name: str) -> dict[str, Any]:
        """Return the object in a JSON file of the folder, empty if there is no such file."""
        path = self.folder / name
        if not path.is_file():
            return {}
        try:
            return msgspec.json.decode(path.read_bytes(), type=dict[str, Any])
        except msgspec.DecodeError as error:
            raise SetupError(f"{path} is no JSON object: {error}.") from error


class ModelFiles(ModelFolder):
    """A folder with tokenizer.json and a chat template.

    chat_template: path of a Jinja file that takes the place of the model's own.
    Raises `SetupError` for a folder without tokenizer.json or without any template.
    """

    def __init__(
        self, folder: str | Path, chat_template: str | None = None, engine: str = "vllm"
    ) -> None:
        path = Path(folder) / "tokenizer.json"
        if not path.is_file():
            raise SetupError(
                f"{folder} has no tokenizer.json, which --tokenizer-backend huggingface reads; "
                "choose vllm or sglang, which read other tokenizers, too, or python for one of your own."
            )
        self.tokenizer: Tokenizer = Tokenizer.from_file(str(path))
        # What a tokenizer.json says of these is left over from training.
        self.tokenizer.no_padding()
        self.tokenizer.no_truncation()
        super().__init__(folder, engine, self.tokenizer.token_to_id)
        self.template = self.load_template(chat_template)

    def encode(self, text: str) -> list[int]:
        """Return the token ids of rendered text, which has its special tokens written out."""
        # A batch of one: `encode` keeps the interpreter to itself for the whole text, a batch lets it go.
        token_ids: list[int] = self.tokenizer.encode_batch_fast([text], add_special_tokens=False)[
            0
        ].ids
        return token_ids

    def prompt_token_ids(
        self,
        messages: list[Message],
        tools: list[dict[str, Any]] | None,
        *,
        model: str = "",
        **template_kwargs: Any,
    ) -> list[int]:
        """Return the prompt of a conversation. Raises `RequestError` for what the template does not take."""
        return self.encode(self.template.render(messages, tools, **template_kwargs))
