"""openai: chat completions, with `create`, `stream` and `parse`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import openai
from pydantic import BaseModel
from typing_extensions import override

from . import base

TOOL: Any = {
    "type": "function",
    "function": {
        "name": base.TOOL_NAME,
        "description": base.TOOL_DESCRIPTION,
        "parameters": base.TOOL_SCHEMA,
        "strict": True,
    },
}


class Person(BaseModel):
    """What structured answers are."""

    name: str
    age: int


def talk(question: str, answer: base.Answer, ask: Callable[[list[Any]], Any]) -> base.Answer:
    """Ask, and ask again with the results of calls, until a message without calls comes.

    ask: returns the message that answers the messages so far.
    """
    messages: list[Any] = [base.user(question)]
    while True:
        message = ask(messages)
        answer.add_reasoning(getattr(message, "reasoning_content", None))
        if not message.tool_calls:
            answer.content = message.content or ""
            return answer
        messages.append(message.model_dump(exclude_none=True))
        messages += [
            {
                "role": "tool",
                "tool_call_id": call.id,
                "content": answer.add_call(call.function.name, call.function.arguments),
            }
            for call in message.tool_calls
        ]


class OpenAIClient(base.ClientAdapter):
    """An adapter with the official client."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.client = openai.OpenAI(base_url=self.base_url, api_key=base.KEY, max_retries=0)


class OpenAIChat(OpenAIClient):
    """`create`, and `stream` with its events."""

    label, package = "openai, chat", "openai"
    reasoning = "`message.reasoning_content`"
    structured = "`chat.completions.parse`"

    @override
    def run(self, question: str, *, stream: bool) -> base.Answer:
        answer = base.Answer()
        return talk(question, answer, lambda asked: self._ask(asked, answer, stream=stream))

    def _ask(self, messages: list[Any], answer: base.Answer, *, stream: bool) -> Any:
        chat = self.client.chat.completions
        if not stream:
            return chat.create(model=base.MODEL, messages=messages, tools=[TOOL]).choices[0].message
        with chat.stream(model=base.MODEL, messages=messages, tools=[TOOL]) as events:
            for event in events:
                answer.pieces += event.type in {
                    "content.delta",
                    "tool_calls.function.arguments.delta",
                }
            return events.get_final_completion().choices[0].message

    @override
    def ask_badly(self) -> None:
        self.client.chat.completions.create(
            model=base.MODEL,
            messages=[{"role": "user", "content": "Hi"}],
            temperature=base.BAD_VALUE,
        )

    @override
    def ask_person(self) -> dict[str, Any]:
        completion = self.client.chat.completions.parse(
            model=base.MODEL,
            messages=[{"role": "user", "content": "Describe Alice as JSON, please."}],
            response_format=Person,
        )
        parsed = completion.choices[0].message.parsed
        assert parsed is not None
        return parsed.model_dump()
