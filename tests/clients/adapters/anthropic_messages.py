"""anthropic: `/v1/messages`, with `create` and `stream`."""

from __future__ import annotations

from typing import Any

import anthropic
from typing_extensions import override

from . import base
from .openai_chat import Person

TOOL: Any = {
    "name": base.TOOL_NAME,
    "description": base.TOOL_DESCRIPTION,
    "input_schema": base.TOOL_SCHEMA,
}
MAX_TOKENS = 2000


class AnthropicMessages(base.ClientAdapter):
    """`create`, and `stream` with its events."""

    label, package, api = "anthropic", "anthropic", "/v1/messages"
    reasoning = "a block of type `thinking`"
    structured = "`messages.parse`"

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.client = anthropic.Anthropic(base_url=url, api_key=base.KEY, max_retries=0)

    @override
    def run(self, question: str, *, stream: bool) -> base.Answer:
        answer = base.Answer()
        messages: list[Any] = [base.user(question)]
        while True:
            message = self._ask(messages, answer, stream=stream)
            results = []
            for block in message.content:
                if block.type == "thinking":
                    answer.add_reasoning(block.thinking)
                elif block.type == "text":
                    answer.content += block.text
                elif block.type == "tool_use":
                    result = answer.add_call(block.name, block.input)
                    results.append(
                        {"type": "tool_result", "tool_use_id": block.id, "content": result}
                    )
            if not results:
                return answer
            blocks = [block.model_dump(exclude_none=True) for block in message.content]
            messages += [{"role": "assistant", "content": blocks}, base.user(results)]

    def _ask(self, messages: list[Any], answer: base.Answer, *, stream: bool) -> Any:
        options: Any = {"max_tokens": MAX_TOKENS, "tools": [TOOL], "messages": messages}
        if not stream:
            return self.client.messages.create(model=base.MODEL, **options)
        with self.client.messages.stream(model=base.MODEL, **options) as events:
            for event in events:
                answer.pieces += event.type == "content_block_delta"
            return events.get_final_message()

    @override
    def ask_badly(self) -> None:
        self.client.messages.create(
            model=base.MODEL,
            max_tokens=MAX_TOKENS,
            messages=[{"role": "user", "content": "Hi"}],
            # The client has no such parameter any more.
            extra_body={"temperature": base.BAD_VALUE},
        )

    @override
    def ask_person(self) -> dict[str, Any]:
        message = self.client.messages.parse(
            model=base.MODEL,
            max_tokens=MAX_TOKENS,
            messages=[{"role": "user", "content": "Describe Alice as JSON, please."}],
            output_format=Person,
        )
        assert message.parsed_output is not None
        return message.parsed_output.model_dump()
