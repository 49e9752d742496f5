"""The model's own chat template: messages in, the prompt's text out. Pure; knows no engine and no Dynamo.

The environment is the one in which transformers renders, since templates are
written for it; messages are brought into the form that vLLM's renderer gives
them, so that both forward edges make the same prompt of a request.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import Any, NoReturn, TypeVar

import jinja2
from jinja2 import nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

from ..parsers.errors import RequestError
from .time_limit import limit_time

R = TypeVar("R")

Message = dict[str, Any]
# Where a folder has several templates, these two names mean something.
DEFAULT, FOR_TOOLS = "default", "tool_use"
TEXT_PARTS = {
    "text": "text",
    "input_text": "text",
    "output_text": "text",
    "refusal": "refusal",
    "thinking": "thinking",
}
# Marks the end of a final message that is to be continued; templates trim what they write.
CONTINUE_HERE = "BACKEDGE-CONTINUE-HERE "
# A template renders 200,000 tokens of messages in a fraction of a second; one that loops never ends.
TEMPLATE_SECONDS = 10.0


class Generation(Extension):
    """`{% generation %}` marks what the model said, for training; here it is text like any other."""

    tags = {"generation"}  # noqa: RUF012 - as jinja2 declares it

    def parse(self, parser: Parser) -> list[nodes.Node]:
        """Return the statements inside."""
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


def environment() -> ImmutableSandboxedEnvironment:
    """Return the environment of transformers' `apply_chat_template`: a template is data of strangers."""
    made = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols]
    )
    made.filters["tojson"] = _tojson
    made.globals["raise_exception"] = _raise_exception
    made.globals["strftime_now"] = _strftime_now
    return made


def _tojson(
    value: object,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    # jinja2's own escapes for HTML.
    return json.dumps(
        value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
    )


def _raise_exception(message: str) -> NoReturn:
    raise jinja2.TemplateError(message)


def _strftime_now(form: str) -> str:
    return datetime.now().strftime(form)  # noqa: DTZ005 - the model is told the local date, as everywhere


class ChatTemplate:
    """Renders the prompts of one model.

    templates: by name; "default" must be there, "tool_use" is taken for requests with tools.
    special_tokens: `bos_token` and its like, which templates write themselves.
    engine: of the model's workers; see `spell_tools`.
    """

    def __init__(
        self, templates: Mapping[str, str], special_tokens: Mapping[str, str], engine: str = "vllm"
    ) -> None:
        self._engine = engine
        made = environment()
        self._templates = {name: made.from_string(source) for name, source in templates.items()}
        self._lists = {name: takes_parts(made.parse(source)) for name, source in templates.items()}
        self._developer = {name: "developer" in source for name, source in templates.items()}
        self._special_tokens = dict(special_tokens)

    def render(
        self,
        messages: list[Message],
        tools: list[dict[str, Any]] | None = None,
        *,
        add_generation_prompt: bool = True,
        continue_final_message: bool = False,
        **variables: Any,
    ) -> str:
        """Return the text of the prompt.

        messages, tools: in OpenAI's form. variables: chat_template_kwargs.
        Raises `RequestError` for a part that is no text, and for what the template refuses.
        """
        name = FOR_TOOLS if tools and FOR_TOOLS in self._templates else DEFAULT
        conversation = [
            _message(at, message, self._lists[name]) for at, message in enumerate(messages)
        ]
        if not self._developer[name]:
            conversation = _without_developer(conversation)
        if continue_final_message:
            _mark(conversation[-1])
        given = {
            **self._special_tokens,
            **variables,
            "messages": conversation,
            "tools": spell_tools(tools, self._engine),
            "add_generation_prompt": add_generation_prompt and not continue_final_message,
        }
        try:
            text = render_in_time(lambda: self._templates[name].render(given))
        except Exception as error:
            # A template is the model's code and raises what it likes; by raising it refuses messages.
            raise RequestError(
                "messages", messages, f"what the model's chat template takes ({error})"
            ) from error
        return text[: text.rindex(CONTINUE_HERE.strip())] if continue_final_message else text


def render_in_time(render: Callable[[], R]) -> R:
    """Return what `render` returns. Raises `TimeoutError` in it where a template takes too long."""
    return limit_time(TEMPLATE_SECONDS, render)


def takes_parts(template: nodes.Template) -> bool:
    """Whether the template reads a message's content as a list of parts: it has a loop over it."""
    return any(_is_content(loop.iter) for loop in template.find_all(nodes.For))


def _is_content(node: nodes.Node) -> bool:
    while isinstance(node, nodes.Filter) and node.node is not None:
        node = node.node
    if isinstance(node, nodes.Getattr):
        return node.attr == "content"
    if isinstance(node, nodes.Getitem):
        return isinstance(node.arg, nodes.Const) and node.arg.value == "content"
    return isinstance(node, nodes.Name) and node.name == "content"


def _message(position: int, message: Message, as_parts: bool) -> Message:
    """Return `message` as templates expect it."""
    texts = list(_texts(position, message.get("content")))
    role = message["role"]
    parts = [{"type": "text", "text": text} for text in texts]
    # What a tool has said is text to every template.
    shown: Message = {
        "role": role,
        "content": parts if as_parts and role != "tool" else "\n".join(texts),
    }
    if role == "assistant":
        _add_assistants_own(shown, message)
    if role == "developer":
        shown["tools"] = message.get("tools")
    for name in ("name", "tool_call_id"):
        if message.get(name) is not None:
            shown[name] = message[name]
    return shown


def _as_vllm(tool: dict[str, Any]) -> dict[str, Any]:
    """Return the definition with its keys in their order, null where the client left one out."""
    function = tool["function"]
    shown = {name: function.get(name) for name in ("name", "description", "parameters")}
    strict = {"strict": function["strict"]} if function.get("strict") is not None else {}
    return {"type": "function", "function": {**shown, **strict}}


def _as_sglang(tool: dict[str, Any]) -> dict[str, Any]:
    """Return the definition with all fields of SGLang's own type, in its order."""
    function = tool["function"]
    shown = {name: function.get(name) for name in ("description", "name", "parameters")}
    strict = bool(function.get("strict"))
    return {"type": "function", "function": {**shown, "strict": strict}, "defer_loading": None}


# How the servers of the engines hand a tool to the template, which writes it out as JSON.
TOOL_SPELLINGS: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "vllm": _as_vllm,
    "sglang": _as_sglang,
}


def spell_tools(tools: list[dict[str, Any]] | None, engine: str) -> list[dict[str, Any]] | None:
    """Return `tools` as the server of the model's `engine` spells them, so that its prompts have one prefix."""
    return list(map(TOOL_SPELLINGS.get(engine, _as_vllm), tools)) if tools else None


def _texts(position: int, content: Any) -> Iterator[str]:
    if isinstance(content, str):
        yield content
        return
    for number, part in enumerate(content or []):
        kind = part if isinstance(part, str) else part.get("type")
        if isinstance(part, str):
            yield part
        elif kind in TEXT_PARTS:
            yield part[TEXT_PARTS[kind]]
        else:
            allowed = "text; for other media run the frontend with vLLM installed (--tokenizer-backend vllm)"
            raise RequestError(f"messages[{position}].content[{number}].type", kind, allowed)


def _add_assistants_own(shown: Message, message: Message) -> None:
    if calls := message.get("tool_calls"):
        shown["tool_calls"] = [
            {**call, "function": _with_object(call["function"])} for call in calls
        ]
    reasoning = message.get("reasoning_content") or message.get("reasoning")
    if reasoning is not None:
        # Both names are in use among templates.
        text = reasoning if isinstance(reasoning, str) else "".join(reasoning)
        shown["reasoning"] = shown["reasoning_content"] = text


def _with_object(function: dict[str, Any]) -> dict[str, Any]:
    """Return the call with its arguments as an object, which templates write in their own syntax.

    An earlier turn's arguments that are none (the model was cut off) become an empty
    one: refusing them would end the conversation for good.
    """
    arguments = function.get("arguments") or {}
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments)
        except json.JSONDecodeError:
            arguments = {}
    return {**function, "arguments": arguments if isinstance(arguments, dict) else {}}


def _without_developer(conversation: list[Message]) -> list[Message]:
    """Return the conversation with developer messages joined to the system message, for a template that has none."""
    if not any(message["role"] == "developer" for message in conversation):
        return conversation
    system = [message for message in conversation if message["role"] in ("system", "developer")]
    texts = [_plain(message["content"]) for message in system]
    merged = {"role": "system", "content": "\n\n".join(text for text in texts if text)}
    return [
        merged,
        *(message for message in conversation if message["role"] not in ("system", "developer")),
    ]


def _plain(content: str | list[dict[str, str]]) -> str:
    return content if isinstance(content, str) else "\n".join(part["text"] for part in content)


def _mark(message: Message) -> None:
    """Put `CONTINUE_HERE` behind the content."""
    content = message["content"]
    if isinstance(content, str):
        message["content"] = content + CONTINUE_HERE
    else:
        content.append({"type": "text", "text": CONTINUE_HERE})
