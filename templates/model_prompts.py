"""Renders and tokenizes a model's prompts with the template in its folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from ..base.errors import SetupError
from ..base.json_types import JsonObject
from ..tokenization.model_files import ModelFolder, load_tokenizer_json
from ..tokenization.prompt_cache import PromptCache
from ..tokenization.prompt_encoder import PromptEncoder
from .chat_template import DEFAULT, ChatTemplate


class NamedTemplate(msgspec.Struct, frozen=True):
    """One of a model's several chat templates."""

    name: str
    template: str


class TemplateConfig(msgspec.Struct, frozen=True):
    """chat_template.json, or the templates in tokenizer_config.json."""

    chat_template: str | list[NamedTemplate] | None = None


def load_template(
    folder: ModelFolder, given: str | None = None, engine: str = "vllm"
) -> ChatTemplate:
    """Return a model's chat template.

    given: path of a Jinja file to use instead of the model's own.
    engine: of the model's workers; prompts equal those of its server.
    Raises `SetupError` if there is no template.
    """
    return ChatTemplate(read_templates(folder, given), folder.special_tokens, engine)


def read_templates(folder: ModelFolder, given: str | None = None) -> dict[str, str]:
    """Return the sources of the chat templates by name, from the first file that has any.

    given: as for `load_template`, whose errors this raises.
    """
    path = Path(given) if given else folder.folder / "chat_template.jinja"
    if given or path.is_file():
        try:
            return {DEFAULT: path.read_text(encoding="utf-8")}
        except (OSError, UnicodeDecodeError) as error:
            raise SetupError(
                f"{path} cannot be read as a chat template ({error}); name a Jinja file."
            ) from error
    for name in ("tokenizer_config.json", "chat_template.json"):
        found = folder.read(name, TemplateConfig).chat_template
        if isinstance(found, str):
            return {DEFAULT: found}
        if found:
            return {entry.name: entry.template for entry in found}
    raise SetupError(
        f"{folder.folder} has no chat template; name a Jinja file with --chat-template."
    )


class ModelPrompts(ModelFolder):
    """Renders and tokenizes the prompts of a model with tokenizer.json and a chat template.

    chat_template: path of a Jinja file to use instead of the model's own.
    engine: as for `load_template`. cache: of parts of prompts; None for no cache.
    Raises `SetupError` for a folder without tokenizer.json or without a template.
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
        super().__init__(folder, self.tokenizer.token_to_id, context_length)
        self.template = load_template(self, chat_template, engine)

    def encode(self, text: str) -> list[int]:
        """Return the token ids of rendered text, which contains its special tokens as text."""
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
