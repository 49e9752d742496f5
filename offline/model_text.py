"""A model's text through transformers: tokenizer, chat template, settings; no weights."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ..base.errors import RequestError, SetupError
from ..base.json_types import JsonObject
from ..templates.chat_template import (
    CACHED_TEMPLATES,
    RESERVED,
    convert_messages,
    create_environment,
    format_tools,
    reads_content_parts,
)
from ..tokenization.errors import describe_error
from ..tokenization.model_files import ModelFolder
from .backend import ModelText
from .contracts import ModelLoadConfig

# Files to fetch from a hub before the weights.
SMALL_FILES = ("*.json", "*.jinja", "*.model", "*.txt", "*.model.v*", "*.tiktoken", "*.py")


def find_folder(config: ModelLoadConfig) -> Path:
    """Return the folder with the model's small files, downloading them for a name on a hub.

    Raises `SetupError` if they are not found.
    """
    folder = Path(config.model)
    if folder.is_dir():
        return folder
    import huggingface_hub

    try:
        found = huggingface_hub.snapshot_download(
            str(config.model), revision=config.revision, allow_patterns=list(SMALL_FILES)
        )
    except Exception as error:
        raise SetupError(
            f"the model {str(config.model)!r} is neither a folder nor found on the hub "
            f"({describe_error(error)}); give the path of a folder or a model's name."
        ) from error
    return Path(found)


def open_text(config: ModelLoadConfig) -> ModelText:
    """Return the tokenizer with its settings.

    Raises `SetupError` for files that cannot be read.
    """
    import transformers

    folder = find_folder(config)
    try:
        tokenizer = transformers.AutoTokenizer.from_pretrained(
            folder, trust_remote_code=config.trust_remote_code
        )
    except Exception as error:
        raise SetupError(
            f"the tokenizer of {str(config.model)!r} cannot be loaded ({describe_error(error)}); "
            "check the files of the folder, or set trust_remote_code=True if it has code of its "
            "own."
        ) from error
    files = ModelFolder(
        folder,
        token_id=tokenizer.convert_tokens_to_ids,
        context_length=config.max_model_len,
    )
    return ModelText(
        tokenizer,
        build_render(tokenizer),
        lambda text: list(tokenizer.encode(text, add_special_tokens=False)),
        lambda text: list(tokenizer.encode(text)),
        list({*files.eos_token_ids, *files.further_eos_token_ids}),
        files.context_length,
        files.generation_config,
    )


def build_render(templates: Any) -> Callable[..., str]:
    """Return a function that renders conversations with `apply_chat_template`.

    templates: a tokenizer or a processor.
    """

    def render(
        messages: list[JsonObject], tools: list[JsonObject] | None, **template_kwargs: Any
    ) -> str:
        refuse_reserved(template_kwargs)
        source = str(templates.chat_template)
        try:
            text = templates.apply_chat_template(
                convert_messages(
                    messages,
                    as_parts=reads_parts(templates),
                    knows_developer="developer" in source,
                ),
                tools=format_tools(tools, "vllm"),
                tokenize=False,
                add_generation_prompt=True,
                **template_kwargs,
            )
        except RequestError:
            raise
        except Exception as error:
            # A template is the model's code: any exception means that it rejects the messages.
            raise RequestError.rejected(error) from error
        return str(text)

    return render


def refuse_reserved(template_kwargs: Mapping[str, object]) -> None:
    """Raise `RequestError` for variables that would override rendering arguments."""
    for name in template_kwargs:
        if name in RESERVED:
            why = "it is an argument of the renderer, not a variable of the template"
            raise RequestError.unsupported(f"chat_template_kwargs.{name}", why)


def reads_parts(templates: Any) -> bool:
    """Whether the default template loops over the parts of a message."""
    source = templates.chat_template
    if isinstance(source, dict):
        source = source.get("default")
    return isinstance(source, str) and _loops_over_parts(source)


@functools.lru_cache(maxsize=CACHED_TEMPLATES)
def _loops_over_parts(source: str) -> bool:
    return reads_content_parts(create_environment().parse(source))
