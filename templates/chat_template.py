"""The model's own chat template: converts messages to prompt text. No engine, no Dynamo.

Messages are converted as in vLLM's renderer, so every back end builds the same prompt.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from ..base.errors import RequestError, SetupError, show
from ..base.json_types import JsonObject
from ..guided.client_schemas import standardize
from ..tokenization.model_files import ModelFolder, load_tokenizer_json
from ..tokenization.prompt_cache import PromptCache, PromptEncoder
from .open_calls import read_arguments
from .rendering import ProcessTemplate

# The two template names with a meaning, if a model has several.
DEFAULT, FOR_TOOLS = "default", "tool_use"
# Marks the end of a final message that the model is to continue, because templates trim messages.
CONTINUE_MARKER = "BACKEDGE-CONTINUE-HERE "
# Number of templates that are cached with their processes. A model has one or a few.
CACHED_TEMPLATES = 64


class ChatTemplate:
    """Renders the prompts of one model.

    templates: by name; "default" is required, "tool_use" is for requests with tools.
    special_tokens: `bos_token` and others, which templates write themselves.
    engine: of the model's workers; see `format_tools`.
    """

    def __init__(
        self, templates: Mapping[str, str], special_tokens: Mapping[str, str], engine: str = "vllm"
    ) -> None:
        self._engine = engine
        self._templates = {name: compile_template(source) for name, source in templates.items()}
        self._knows_developer = {name: "developer" in source for name, source in templates.items()}
        self._special_tokens = dict(special_tokens)

    def render(
        self,
        messages: list[JsonObject],
        tools: list[JsonObject] | None = None,
        *,
        add_generation_prompt: bool = True,
        continue_final_message: bool = False,
        **template_kwargs: object,
    ) -> str:
        """Return the text of the prompt.

        messages, tools: in OpenAI's form. template_kwargs: the request's
            chat_template_kwargs as variables; those that the template does not read are dropped.
        Raises `RequestError` for a part that is not text, and if the template raises.
        """
        name = FOR_TOOLS if tools and FOR_TOOLS in self._templates else DEFAULT
        template = self._templates[name]
        conversation = convert_messages(
            messages,
            as_parts=template.reads_parts,
            knows_developer=self._knows_developer[name],
        )
        if continue_final_message:
            _append_marker(conversation[-1])
        variables = {
            **self._special_tokens,
            **{key: template_kwargs[key] for key in template.variables & template_kwargs.keys()},
            "messages": conversation,
            "tools": format_tools(tools, self._engine),
            "add_generation_prompt": add_generation_prompt and not continue_final_message,
        }
        try:
            text = template.render(variables)
        except Exception as error:
            # A template is the model's code: any exception means that it rejects the messages.
            raise RequestError.rejected(error) from error
        return text[: text.rindex(CONTINUE_MARKER.strip())] if continue_final_message else text


@functools.lru_cache(maxsize=CACHED_TEMPLATES)
def compile_template(source: str) -> ProcessTemplate:
    """Return the template. Raises `SetupError` for one that cannot be compiled."""
    return ProcessTemplate(source)


def find_variables(chat_template: str) -> frozenset[str]:
    """Return the names of the variables that a template reads without setting them.

    It replaces a function of vLLM and one of transformers: its parameter has the name of theirs.
    """
    return compile_template(chat_template).variables


def convert_messages(
    messages: list[JsonObject], *, as_parts: bool, knows_developer: bool
) -> list[JsonObject]:
    """Convert messages from OpenAI's form to that of chat templates.

    as_parts: content as a list of parts, not as text.
    knows_developer: otherwise developer messages are merged into the system message.
    Raises `RequestError` for a part that is not text.
    """
    conversation = [
        _convert_message(position, message, as_parts) for position, message in enumerate(messages)
    ]
    return conversation if knows_developer else _merge_developer_messages(conversation)


def _convert_message(position: int, message: JsonObject, as_parts: bool) -> JsonObject:
    """Return `message` in the form that templates expect."""
    texts = list(_content_texts(position, message.get("content")))
    role = message["role"]
    parts = [{"type": "text", "text": text} for text in texts]
    # Every template expects a tool's result as text.
    converted: JsonObject = {
        "role": role,
        "content": parts if as_parts and role != "tool" else "\n".join(texts),
    }
    if role == "assistant":
        _add_assistant_fields(converted, message)
    if role == "developer":
        converted["tools"] = message.get("tools")
    for name in ("name", "tool_call_id"):
        if message.get(name) is not None:
            converted[name] = message[name]
    return converted


def _format_tool_for_vllm(tool: JsonObject) -> JsonObject:
    """Return the definition in vLLM's order of keys, with null for missing ones."""
    function = tool["function"]
    fields = {name: function.get(name) for name in ("name", "description", "parameters")}
    strict = {"strict": function["strict"]} if function.get("strict") is not None else {}
    return {"type": "function", "function": {**fields, **strict}}


def _format_tool_for_sglang(tool: JsonObject) -> JsonObject:
    """Return the definition with all fields of SGLang's own type, in its order.

    SGLang's server also standardizes the schema.
    """
    function = tool["function"]
    fields = {name: function.get(name) for name in ("description", "name", "parameters")}
    if isinstance(fields["parameters"], dict):
        fields["parameters"] = standardize(fields["parameters"])
    strict = bool(function.get("strict"))
    return {"type": "function", "function": {**fields, "strict": strict}, "defer_loading": None}


TOOL_FORMATS: dict[str, Callable[[JsonObject], JsonObject]] = {
    "vllm": _format_tool_for_vllm,
    "sglang": _format_tool_for_sglang,
}


def format_tools(tools: list[JsonObject] | None, engine: str) -> list[JsonObject] | None:
    """Return `tools` as the server of `engine` passes them to the template; None for no tools.

    The template writes them as JSON, so prompts have the same prefix as those of that server.
    An unknown engine is treated as vLLM.
    """
    return list(map(TOOL_FORMATS.get(engine, _format_tool_for_vllm), tools)) if tools else None


def _content_texts(position: int, content: str | list[JsonObject | str] | None) -> Iterator[str]:
    if isinstance(content, str):
        yield content
        return
    for number, part in enumerate(content or []):
        yield _read_text(f"messages[{position}].content[{number}]", part)


def _read_text(where: str, part: object) -> str:
    """Return the text of a content part. where: its JSON path."""
    if isinstance(part, str):
        return part
    kind = part.get("type") if isinstance(part, dict) else None
    if not isinstance(part, dict) or not isinstance(kind, str):
        allowed = "a content part, which is an object with a `type`"
        raise RequestError.wrong(where, part, allowed)
    if kind not in TEXT_PARTS:
        remedy = "media need a frontend with vLLM (--tokenizer-backend vllm)"
        raise RequestError(f"{where}.type", f"must be text, not {show(kind)}; {remedy}")
    text = part.get(TEXT_PARTS[kind])
    if not isinstance(text, str):
        raise RequestError.wrong(f"{where}.{TEXT_PARTS[kind]}", text, "a string")
    return text


def _add_assistant_fields(converted: JsonObject, message: JsonObject) -> None:
    if calls := message.get("tool_calls"):
        converted["tool_calls"] = [
            {
                **call,
                "function": {
                    **call["function"],
                    "arguments": read_arguments(call["function"].get("arguments")),
                },
            }
            for call in calls
        ]
    reasoning = message.get("reasoning_content") or message.get("reasoning")
    if reasoning is not None:
        # Templates use either name; gpt-oss's a third, but not for a call that follows content.
        text = join_reasoning(reasoning)
        converted["reasoning"] = converted["reasoning_content"] = text
        if text and not (calls and converted.get("content")):
            converted["thinking"] = text


def join_reasoning(reasoning: str | list[str]) -> str:
    """Join the reasoning of an earlier turn into the text that chat templates expect.

    reasoning: Dynamo makes a list of the reasoning before each call and after the last one;
        its own frontend joins the list in the same way.
    """
    if isinstance(reasoning, str):
        return reasoning
    return "\n".join(part for part in reasoning if part)


def _merge_developer_messages(conversation: list[JsonObject]) -> list[JsonObject]:
    """Return the conversation with developer messages merged into the system message."""
    if not any(message["role"] == "developer" for message in conversation):
        return conversation
    system = [message for message in conversation if message["role"] in ("system", "developer")]
    texts = [_join_parts(message["content"]) for message in system]
    merged = {"role": "system", "content": "\n\n".join(text for text in texts if text)}
    return [
        merged,
        *(message for message in conversation if message["role"] not in ("system", "developer")),
    ]


def _join_parts(content: str | list[dict[str, str]]) -> str:
    return content if isinstance(content, str) else "\n".join(part["text"] for part in content)


def _append_marker(message: JsonObject) -> None:
    content = message["content"]
    if isinstance(content, str):
        message["content"] = content + CONTINUE_MARKER
    else:
        content.append({"type": "text", "text": CONTINUE_MARKER})


# Types of text parts -> the field with the text.
TEXT_PARTS = {
    "text": "text",
    "input_text": "text",
    "output_text": "text",
    "refusal": "refusal",
    "thinking": "thinking",
}

# Parameters of transformers' `apply_chat_template` and of functions that it calls. `documents` is
# one as well, but primarily a variable of templates.
_TRANSFORMERS = frozenset(
    "conversation conversations messages tools chat_template tokenize "
    "add_generation_prompt continue_final_message padding truncation max_length "
    "return_tensors return_dict return_assistant_tokens_mask tokenizer_kwargs "
    "compiled_template self args kwargs".split()
)
# Parameters of the functions around it: vLLM's, SGLang's, mistral-common's, users' tokenizers'.
_ENGINES = frozenset({"model", "model_config", "tokenizer", "request", "processor"})
# Names that are defined in templates: Jinja's functions, and those for chat templates.
_GLOBALS = frozenset(
    "range dict lipsum cycler joiner namespace raise_exception strftime_now".split()
)
# Variables that a request must not set: renderers take `chat_template_kwargs` as keyword arguments
# of Python functions, next to their own. `padding` with a `max_length` reserves memory.
RESERVED = _TRANSFORMERS | _ENGINES | _GLOBALS


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
        return {DEFAULT: read_template_file(path)}
    for name in ("tokenizer_config.json", "chat_template.json"):
        found = folder.read(name, TemplateConfig).chat_template
        if isinstance(found, str):
            return {DEFAULT: found}
        if found:
            return {entry.name: entry.template for entry in found}
    raise SetupError(
        f"{folder.folder} has no chat template; name a Jinja file with --chat-template."
    )


def read_template_file(path: str | Path) -> str:
    """Return a chat template's source. Raises `SetupError`."""
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SetupError(
            f"{path} cannot be read as a chat template ({error}); name a Jinja file."
        ) from error


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
