"""Outputs of a model in an engine's own server, and the answers that clients should get.

The pitfalls of docs/pitfalls.md that show with the example model's tokens, calls as in vLLM's
issue 56077, and the scenarios of vLLM's own tests of serving calls (`tests/tool_use` and
`tests/entrypoints/openai/chat_completion` of vllm-project/vllm), in our words.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from tests.e2e.client import Answer
from tests.parsers.pitfall_cases import CASES as PITFALL_CASES
from tests.parsers.pitfalls import (
    AFTER_TOOL,
    END,
    NO_THINKING,
    Pitfall,
    hermes,
    qwen,
    tool,
)
from tests.support import TRANSCRIPTS, Transcript, as_whole, encode

QUIET: dict[str, Any] = {"chat_template_kwargs": {"enable_thinking": False}}
QUESTION: list[dict[str, Any]] = [{"role": "user", "content": "Go on."}]
CALLED = {"id": "call_1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
RESULT: list[dict[str, Any]] = [
    *QUESTION,
    {"role": "assistant", "content": "", "tool_calls": [CALLED]},
    {"role": "tool", "tool_call_id": "call_1", "content": "42"},
]
Message = dict[str, Any]


@dataclass(frozen=True)
class Case:
    """One answer. parser: of calls; that of reasoning is `qwen3`.

    script: the tokens that the model writes. request: fields of the request. expect: the client's
    message, with arguments as JSON if they are. streamed: fields of it that differ in a stream.
    """

    id: str
    parser: str
    script: list[int]
    request: dict[str, Any]
    expect: Message
    streamed: Message = field(default_factory=dict)

    def expected(self, *, stream: bool) -> Message:
        """Return the message that the client should get."""
        return self.expect | (self.streamed if stream else {})


def expect(
    reasoning: str | None = None,
    content: str | None = None,
    calls: tuple[tuple[str, Any], ...] = (),
    finish_reason: str = "",
) -> Message:
    """Return a message as `read_message` does."""
    return {
        "reasoning": reasoning,
        "content": content,
        "calls": list(calls),
        "finish_reason": finish_reason or ("tool_calls" if calls else "stop"),
    }


def is_served(case: Pitfall) -> bool:
    """Whether a server with the example model can show this pitfall.

    Not calls under a grammar, which would not let the model write them.
    """
    return (
        case.tokenizer == "bpe"
        and case.parsers in {("hermes", "qwen3"), ("qwen3_coder", "qwen3")}
        and case.request in ({}, {"tool_choice": "none"})
        and "detokenizer" not in case.params
    )


def from_pitfall(case: Pitfall) -> Case:
    """Return the pitfall as a request of a server."""
    script = encode("".join(case.output))
    request: dict[str, Any] = {
        "messages": RESULT if case.prompt == AFTER_TOOL else QUESTION,
        **(QUIET if case.prompt == NO_THINKING else {}),
        **({"tools": list(case.tools)} if case.tools else {}),
        **case.request,
        **case.params,
    }
    if "min_tokens" in case.params:
        request["min_tokens"] = len(encode("END. END."))
    if case.engine == "length":
        request["max_tokens"] = len(script)
    message = expect(case.reasoning, case.content, case.calls, case.expected[1])
    streamed = STREAMED.get(case.id, {})
    return Case(case.id, str(case.parsers[0]), [*script, *encode(END)], request, message, streamed)


# The part of a call that a stream has sent before it turns out to be cut.
STREAMED: dict[str, Message] = {
    "15-cut-in-the-arguments": {"content": None, "calls": [("f", '{"a": "x')]}
}

RUN_SHELL = tool("run_shell", command="string")
WEATHER = tool("get_weather", city="string", state="string", days="integer")
SEARCH = tool("search", query="string")
DALLAS = {"city": "Dallas", "state": "TX", "days": 2}
ORLANDO = {"city": "Orlando", "state": "FL", "days": 3}


def spell(parser: str, name: str, arguments: dict[str, Any]) -> str:
    """Return a call in a parser's syntax."""
    if parser == "hermes":
        return hermes(json.dumps({"name": name, "arguments": arguments}))
    return qwen(name, **{key: str(value) for key, value in arguments.items()})


def written(
    name: str, parser: str, output: str, message: Message, *, thinks: bool = False, **request: Any
) -> Case:
    """Return a case. thinks: the prompt leaves the model free to reason."""
    fields = {"messages": QUESTION, **({} if thinks else QUIET), **request}
    return Case(f"{name}, {parser}", parser, encode(output + END), fields, message)


def shell_cases() -> Iterator[Case]:
    """Yield the calls of vLLM's issue 56077, as the model meant them."""
    for command in ("ls", "git status", "echo '<b>' > /tmp/x && cat /tmp/x"):
        yield written(
            f"56077: {command}",
            "qwen3_coder",
            f"<think>\nI run {command}.\n</think>\n\n" + qwen("run_shell", command=command),
            expect(f"\nI run {command}.\n", None, (("run_shell", {"command": command}),)),
            thinks=True,
            tools=[RUN_SHELL],
        )


def serving_cases(parser: str) -> Iterator[Case]:
    """Yield the scenarios of vLLM's tests of serving calls."""
    tools = [WEATHER, SEARCH]
    dallas, orlando = (spell(parser, "get_weather", each) for each in (DALLAS, ORLANDO))
    one, two = (("get_weather", DALLAS),), (("get_weather", DALLAS), ("get_weather", ORLANDO))
    thought = "<think>\nI look.\n</think>"
    text = "It is 98 degrees."
    yield written("one call", parser, dallas, expect(calls=one), tools=tools)
    yield written("two calls", parser, f"{dallas}\n{orlando}", expect(calls=two), tools=tools)
    yield written("text without tools", parser, text, expect(content=text))
    yield written("text with tools", parser, text, expect(content=text), tools=tools)
    for arguments in ("{}", ""):
        called = {**CALLED, "function": {"name": "get_weather", "arguments": arguments}}
        history = [*QUESTION, {**RESULT[1], "tool_calls": [called]}, RESULT[2]]
        yield written(
            f"text after a result of a call with the arguments '{arguments}'",
            parser,
            text,
            expect(content=text),
            tools=tools,
            messages=history,
        )
    for choice in ("auto", "none"):
        calls = one if choice == "auto" else ()
        yield written(
            f"reasoning and a call, {choice}",
            parser,
            thought + dallas,
            expect("\nI look.\n", None, calls),
            thinks=True,
            tools=tools,
            tool_choice=choice,
        )
    yield written(
        "reasoning and text", parser, thought + text, expect("\nI look.\n", text), thinks=True
    )
    yield written(
        "reasoning that is not asked for",
        parser,
        thought + text,
        expect(None, text),
        thinks=True,
        include_reasoning=False,
    )
    for city in ("a { b", "a } b", "a }} b", 'a " } b', "a \\ } b", "Zürich 东京 👋🏽"):
        place = {"city": city}
        yield written(
            f"a call with {city}",
            parser,
            spell(parser, "get_weather", place),
            expect(calls=(("get_weather", place),)),
            tools=tools,
        )


def from_transcript(transcript: Transcript) -> Case:
    """Return an example conversation; the model knows the answer."""
    fields = ("messages", "tools", "tool_choice", "stop", "max_tokens", "response_format")
    names = {*fields, "chat_template_kwargs"} & transcript.keys()
    messages = [as_message(each) for each in (as_whole(transcript["expect"]), transcript["expect"])]
    request = {name: transcript[name] for name in names}
    return Case(transcript["id"], "hermes", [], request, *messages)


def as_message(found: dict[str, Any]) -> Message:
    """Return a transcript's answer as `expect` does."""
    calls = [(call["name"], read_arguments(call["arguments"])) for call in found["tool_calls"]]
    return expect(
        found["reasoning"], found["content"] or None, tuple(calls), found["finish_reason"]
    )


def read_message(answer: Answer) -> Message:
    """Return a client's answer; arguments as JSON, or else as text."""
    calls = [(call["name"], read_arguments(call["arguments"])) for call in answer.tool_calls]
    return {
        "reasoning": answer.reasoning or None,
        "content": answer.content or None,
        "calls": calls,
        "finish_reason": answer.finish_reason,
    }


def read_arguments(text: str) -> Any:
    """Return the JSON of a call's arguments; other text as it is."""
    try:
        return json.loads(text)
    except ValueError:
        return text


TABLES = {
    "pitfalls": [
        *(from_pitfall(case) for case in PITFALL_CASES if is_served(case)),
        *shell_cases(),
    ],
    "vLLM's tests": [
        case for parser in ("hermes", "qwen3_coder") for case in serving_cases(parser)
    ],
    "examples": [from_transcript(transcript) for transcript in TRANSCRIPTS.values()],
}
