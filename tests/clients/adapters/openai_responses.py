"""openai: `/v1/responses`, with `create`, `stream` and `parse`."""

from __future__ import annotations

from typing import Any

from typing_extensions import override

from . import base
from .openai_chat import OpenAIClient, Person

TOOL: Any = {
    "type": "function",
    "name": base.TOOL_NAME,
    "description": base.TOOL_DESCRIPTION,
    "parameters": base.TOOL_SCHEMA,
    "strict": True,
}
# Dynamo sends reasoning items only if a summary is asked for.
SHOW_REASONING: Any = {"reasoning": {"summary": "auto"}}
DELTAS = {
    "response.output_text.delta",
    "response.function_call_arguments.delta",
    "response.reasoning_summary_text.delta",
    "response.reasoning_text.delta",
}


class OpenAIResponses(OpenAIClient):
    """`create`, and `stream` with its events."""

    label, package, api = "openai, responses", "openai", "/v1/responses"
    reasoning = "an item of type `reasoning`"
    structured = "`responses.parse`"

    @override
    def run(self, question: str, *, stream: bool) -> base.Answer:
        answer = base.Answer()
        items: list[Any] = [base.user(question)]
        while True:
            response = self._ask(items, answer, stream=stream)
            results = []
            for item in response.output:
                if item.type == "reasoning":
                    parts = [*item.summary, *(item.content or [])]
                    answer.add_reasoning("".join(part.text for part in parts))
                elif item.type == "function_call":
                    result = answer.add_call(item.name, item.arguments)
                    results.append(
                        {
                            "type": "function_call_output",
                            "call_id": item.call_id,
                            "output": result,
                        }
                    )
            if not results:
                answer.content = response.output_text
                return answer
            items += [*response.output, *results]

    def _ask(self, items: list[Any], answer: base.Answer, *, stream: bool) -> Any:
        asked: Any = {"model": base.MODEL, "input": items, "tools": [TOOL], **SHOW_REASONING}
        if not stream:
            return self.client.responses.create(**asked)
        with self.client.responses.stream(**asked) as events:
            for event in events:
                answer.pieces += event.type in DELTAS
            return events.get_final_response()

    @override
    def ask_badly(self) -> None:
        self.client.responses.create(model=base.MODEL, input="Hi", temperature=base.BAD_VALUE)

    @override
    def ask_person(self) -> dict[str, Any]:
        response = self.client.responses.parse(
            model=base.MODEL, input="Describe Alice as JSON, please.", text_format=Person
        )
        assert response.output_parsed is not None
        return response.output_parsed.model_dump()
