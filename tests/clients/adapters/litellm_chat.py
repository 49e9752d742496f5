"""litellm: `completion`, as a client of an OpenAI-like server."""

from __future__ import annotations

from typing import Any

import litellm
from typing_extensions import override

from . import base
from .openai_chat import TOOL, Person, talk


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

        def ask(messages: list[Any]) -> Any:
            response = self._complete(messages=messages, tools=[TOOL], stream=stream)
            if stream:
                chunks = list(response)
                answer.pieces += len(chunks)
                response = litellm.stream_chunk_builder(chunks)
            return response.choices[0].message

        return talk(question, answer, ask)

    @override
    def ask_badly(self) -> None:
        self._complete(messages=[base.user("Hi")], temperature=base.BAD_VALUE)

    @override
    def ask_person(self) -> dict[str, Any]:
        messages = [base.user("Describe Alice as JSON, please.")]
        response = self._complete(messages=messages, response_format=Person)
        return Person.model_validate_json(response.choices[0].message.content).model_dump()
