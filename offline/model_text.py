"""A model's text through transformers: tokenizer, chat template, settings; no weights.

Batch jobs want answers without thoughts, so `enable_thinking=False` is tried first, and omitted if
the template rejects it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from ..base.errors import RequestError, SetupError
from ..base.json_types import JsonObject
from ..base.log import get_logger
from ..templates.chat_template import (
    DEFAULT,
    RESERVED,
    compile_template,
    convert_messages,
    format_tools,
    read_templates,
)
from ..templates.python_prompts import PythonPrompts
from ..tokenization import LazyTokenizer, TokenizerError, load
from ..tokenization.errors import describe_error
from ..tokenization.model_files import (
    GenerationConfig,
    ModelFolder,
    find_folder,
    needs_mistral,
)
from ..tokenization.prompt_cache import PromptLimit
from .contracts import (
    GenerationOptions,
    ModelLoadConfig,
    OptionValueError,
    TextGenerationRequest,
)
from .rows import RowFailure

logger = get_logger(__name__)

T = TypeVar("T")

ROLES = ("system", "developer", "user", "assistant", "tool")
THINKING = "enable_thinking"


@dataclass
class ModelText:
    """The parts of a model that its text needs, without weights.

    tokenizer: as for `detokenizers`.
    render, encode: a conversation to text, and text with special tokens to token ids; a template
        without text gives token ids at once.
    encode_plain: text that no template has produced.
    context_length: limit for tokens of prompt and answer together; None if unknown.
    """

    tokenizer: object
    render: Callable[..., object]
    encode: Callable[[str], list[int]]
    encode_plain: Callable[[str], list[int]]
    eos_token_ids: Sequence[int] = ()
    context_length: int | None = None
    generation_config: GenerationConfig = field(default_factory=GenerationConfig)

    def check_length(self, prompt: str, encode: Callable[[str], list[int]]) -> None:
        """Raise `RowFailure` for a text that is far too long, before tokenizing all of it."""
        try:
            PromptLimit(self.context_length).check(prompt, lambda part: len(encode(part)))
        except RequestError as error:
            raise RowFailure("prompt_too_long", str(error)) from error


def open_text(config: ModelLoadConfig) -> ModelText:
    """Return the tokenizer with its settings.

    Raises `SetupError` for files that cannot be read.
    """
    import transformers

    folder = find_folder(str(config.model), config.revision)
    if config.tokenizer_module or config.tokenizer_class:
        if not (config.tokenizer_module and config.tokenizer_class):
            raise OptionValueError("tokenizer_module", "must be given with tokenizer_class")
        return _open_python(load(config.tokenizer_module, config.tokenizer_class, folder), config)
    if needs_mistral(folder):
        if config.chat_template is not None:
            raise SetupError("chat_template is not for models whose prompts mistral-common makes.")
        return _open_mistral(folder, config)
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
    use_template(tokenizer, config)
    files = ModelFolder(
        folder,
        token_id=tokenizer.convert_tokens_to_ids,
        context_length=config.max_model_len,
    )
    return ModelText(
        tokenizer,
        build_render(tokenizer, config.backend),
        lambda text: list(tokenizer.encode(text, add_special_tokens=False)),
        lambda text: list(tokenizer.encode(text)),
        list({*files.eos_token_ids, *files.further_eos_token_ids}),
        files.context_length,
        files.generation_config,
    )


def use_template(templates: Any, config: ModelLoadConfig) -> None:
    """Give a tokenizer or processor the configured template, to render in a process.

    Raises `SetupError`.
    """
    from ..templates.transformers_tokenizers import bound_templates

    bound_templates()
    if config.chat_template is not None:
        found = read_templates(ModelFolder(""), os.fspath(config.chat_template))
        templates.chat_template = found[DEFAULT]


def _open_mistral(folder: Path, config: ModelLoadConfig) -> ModelText:
    """Return mistral-common's tokenizer, as servers use it.

    transformers' class for it would write the template's control tokens as plain text.
    """
    tokenizer = load("backedge.tokenization.mistral", "MistralTokenizer", folder)
    try:
        inner = tokenizer.tokenizer
    except TokenizerError as error:
        raise SetupError(str(error)) from error
    files = ModelFolder(folder, context_length=config.max_model_len)
    return ModelText(
        tokenizer,
        tokenizer.prompt_token_ids,
        tokenizer.encode,
        lambda text: list(inner.encode(text, bos=True, eos=False)),
        list({*files.eos_token_ids, *files.further_eos_token_ids, inner.eos_id}),
        files.context_length,
        files.generation_config,
    )


def _open_python(tokenizer: LazyTokenizer, config: ModelLoadConfig) -> ModelText:
    """Return the text of the user's tokenizer, as frontends use it."""
    template = None if config.chat_template is None else str(config.chat_template)
    folder = Path(tokenizer.source.model_path)
    try:
        prompts = PythonPrompts(
            tokenizer, folder, template, config.backend, context_length=config.max_model_len
        )
        decoder = prompts.tokenizer
    except TokenizerError as error:
        raise SetupError(str(error)) from error
    return ModelText(
        decoder,
        prompts.prompt_token_ids,
        prompts.encode,
        prompts.encode,
        list({*prompts.eos_token_ids, *prompts.further_eos_token_ids}),
        prompts.context_length,
        prompts.generation_config,
    )


def build_render(templates: Any, engine: str) -> Callable[..., str]:
    """Return a function that renders conversations with `apply_chat_template`.

    templates: a tokenizer or a processor. engine: as for `format_tools`.
    """

    def render(
        messages: list[JsonObject], tools: list[JsonObject] | None, **template_kwargs: Any
    ) -> str:
        conversation = convert_messages(
            messages,
            as_parts=reads_parts(templates),
            knows_developer="developer" in str(templates.chat_template),
        )
        return apply_template(templates, conversation, format_tools(tools, engine), template_kwargs)

    return render


def apply_template(
    templates: Any,
    conversation: list[JsonObject],
    tools: list[JsonObject] | None,
    template_kwargs: Mapping[str, object],
) -> str:
    """Return the prompt of a conversation. Raises `RequestError`."""
    try:
        text = templates.apply_chat_template(
            conversation,
            tools=tools,
            tokenize=False,
            add_generation_prompt=True,
            **template_kwargs,
        )
    except Exception as error:
        # A template is the model's code: any exception means that it rejects the messages.
        raise RequestError.rejected(error) from error
    return str(text)


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
    return isinstance(source, str) and compile_template(source).reads_parts


def render_conversation(
    render: Callable[..., T], request: TextGenerationRequest, options: GenerationOptions
) -> T:
    """Return what `render` makes of the conversation. Raises `RequestError`."""
    messages = check_messages(request.messages)
    # As in servers, which do not show tools that must not be called.
    tools = list(request.tools) if request.tools and request.tool_choice != "none" else None
    kwargs = dict(options.chat_template_kwargs)
    refuse_reserved(kwargs)
    if THINKING in kwargs or options.reasoning_parser:
        return render(messages, tools, **kwargs)
    try:
        return render(messages, tools, **kwargs, enable_thinking=False)
    except RequestError:
        # If the template rejects the conversation itself, this raises again.
        rendered = render(messages, tools, **kwargs)
    logger.info("the chat template rejects %s=False; rendered without it", THINKING)
    return rendered


def check_messages(messages: object) -> list[JsonObject]:
    """Return the messages. Raises `RequestError` if they are not a valid conversation."""
    if not isinstance(messages, Sequence) or isinstance(messages, str | bytes) or not messages:
        raise RequestError.wrong("messages", messages, "a list of at least one message")
    for position, message in enumerate(messages):
        where = f"messages[{position}]"
        if not isinstance(message, Mapping):
            raise RequestError.wrong(where, message, "an object with role and content")
        if message.get("role") not in ROLES:
            raise RequestError.wrong(
                f"{where}.role", message.get("role"), f"one of {', '.join(ROLES)}"
            )
        content = message.get("content")
        if not isinstance(content, str | list | None):
            raise RequestError.wrong(f"{where}.content", content, "a string or a list of parts")
        if content is None and message["role"] != "assistant":
            raise RequestError.wrong(f"{where}.content", content, "a string or a list of parts")
        _check_calls(where, message.get("tool_calls"))
    return [dict(message) for message in messages]


def _check_calls(where: str, calls: object) -> None:
    if calls is None:
        return
    if not isinstance(calls, list):
        raise RequestError.wrong(f"{where}.tool_calls", calls, "a list of calls")
    for number, call in enumerate(calls):
        function = call.get("function") if isinstance(call, Mapping) else None
        if not isinstance(function, Mapping) or not isinstance(function.get("name"), str):
            raise RequestError.wrong(
                f"{where}.tool_calls[{number}]", call, "an object with a function that has a name"
            )
