"""pydantic-ai: an agent with `OpenAIChatModel`."""

from __future__ import annotations

import asyncio
from typing import Any

from pydantic_ai import Agent
from pydantic_ai.messages import (
    ModelMessage,
    ModelResponse,
    PartDeltaEvent,
    TextPart,
    ThinkingPart,
    ToolCallPart,
)
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider
from typing_extensions import override

from . import base
from .openai_chat import Person


class PydanticAI(base.ClientAdapter):
    """`Agent.run_sync`, and `run_stream_events` with the events."""

    label, package = "pydantic-ai", "pydantic-ai-slim"
    reasoning = "a `ThinkingPart`"
    structured = "`Agent(output_type=...)`"
    error = "ModelHTTPError"

    def _build_agent(self, **options: Any) -> Agent[None, Any]:
        provider = OpenAIProvider(base_url=self.base_url, api_key=base.KEY)
        return Agent(OpenAIChatModel(base.MODEL, provider=provider), retries=0, **options)

    @override
    def run(self, question: str, *, stream: bool) -> base.Answer:
        agent = self._build_agent(tools=[base.get_weather])
        answer = base.Answer()
        if stream:
            messages = asyncio.run(self._stream(agent, question, answer))
        else:
            messages = agent.run_sync(question).all_messages()
        for message in messages:
            for part in message.parts if isinstance(message, ModelResponse) else ():
                if isinstance(part, ThinkingPart):
                    answer.add_reasoning(part.content)
                elif isinstance(part, ToolCallPart):
                    answer.add_call(part.tool_name, part.args_as_dict())
                elif isinstance(part, TextPart):
                    answer.content += part.content
        return answer

    @staticmethod
    async def _stream(
        agent: Agent[None, Any], question: str, answer: base.Answer
    ) -> list[ModelMessage]:
        messages: list[ModelMessage] = []
        async with agent.run_stream_events(question) as events:
            async for event in events:
                answer.pieces += isinstance(event, PartDeltaEvent)
                if event.event_kind == "agent_run_result":
                    messages = event.result.all_messages()
        return messages

    @override
    def ask_badly(self) -> None:
        self._build_agent().run_sync("Hi", model_settings={"temperature": base.BAD_VALUE})

    @override
    def ask_person(self) -> dict[str, Any]:
        agent = self._build_agent(output_type=Person)
        return Person.model_validate(
            agent.run_sync("Describe Alice as JSON, please.").output
        ).model_dump()
