"""litellm: `completion`, as a client of an OpenAI-like server."""

from __future__ import annotations

from typing import Any

import litellm
from typing_extensions import override

from . import base
from .openai_chat import TOOL, Person


class LiteLLM(base.ClientAdapter):
    """`completion`, streamed or not."""

    label, package = "litellm", "litellm"
    reasoning = "`message.reasoning_content`"
    structured = "`completion(response_format=...)`"

    def _complete(self, **options: Any) -> Any:
        return litellm.completion(
            model=f"openai/{base.MODEL}", api_base=self.base_url, api_key=base.KEY, **options
        )

    @override
    def run(self, question: str, *, stream: bool) -> base.Answer:
        answer = base.Answer()
        messages: list[Any] = [base.user(question)]
        while True:
            response = self._complete(messages=messages, tools=[TOOL], stream=stream)
            if stream:
                chunks = list(response)
                answer.pieces += len(chunks)
                response = litellm.stream_chunk_builder(chunks)
            message = response.choices[0].message
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

    @override
    def ask_badly(self) -> None:
        self._complete(messages=[base.user("Hi")], temperature=base.BAD_VALUE)

    @override
    def ask_person(self) -> dict[str, Any]:
        messages = [base.user("Describe Alice as JSON, please.")]
        response = self._complete(messages=messages, response_format=Person)
        return Person.model_validate_json(response.choices[0].message.content).model_dump()
