"""openai-agents: `Runner`, over responses (its default) and over chat completions."""

from __future__ import annotations

import asyncio
from typing import Any, ClassVar

from agents import (
    Agent,
    ModelSettings,
    OpenAIChatCompletionsModel,
    OpenAIResponsesModel,
    RunConfig,
    Runner,
    function_tool,
)
from agents.items import MessageOutputItem, ReasoningItem, ToolCallItem
from openai import AsyncOpenAI
from openai.types.shared import Reasoning
from typing_extensions import override

from . import base
from .openai_chat import Person

# It would send what it does to OpenAI.
CONFIG = RunConfig(tracing_disabled=True)


class OpenAIAgents(base.ClientAdapter):
    """`Runner.run` and `Runner.run_streamed`."""

    label, package, api = "openai-agents", "openai-agents", "/v1/responses"
    reasoning = "a `ReasoningItem`"
    structured = "`Agent(output_type=...)`"
    model: ClassVar[type[Any]] = OpenAIResponsesModel

    def _build_agent(self, **options: Any) -> Agent[Any]:
        client = AsyncOpenAI(base_url=self.base_url, api_key=base.KEY, max_retries=0)
        model = self.model(model=base.MODEL, openai_client=client)
        return Agent(name="tester", model=model, **options)

    @override
    def run(self, question: str, *, stream: bool) -> base.Answer:
        agent = self._build_agent(
            tools=[function_tool(base.get_weather)],
            model_settings=ModelSettings(reasoning=Reasoning(summary="auto")),
        )
        answer = base.Answer()
        result = asyncio.run(self._run(agent, question, answer, stream=stream))
        for item in result.new_items:
            if isinstance(item, ReasoningItem):
                raw = item.raw_item
                parts = [*raw.summary, *(raw.content or [])]
                answer.add_reasoning("".join(part.text for part in parts))
            elif isinstance(item, ToolCallItem):
                call: Any = item.raw_item
                answer.add_call(call.name, call.arguments)
            elif isinstance(item, MessageOutputItem):
                answer.content = str(result.final_output)
        return answer

    @staticmethod
    async def _run(agent: Agent[Any], question: str, answer: base.Answer, *, stream: bool) -> Any:
        if not stream:
            return await Runner.run(agent, question, run_config=CONFIG)
        result = Runner.run_streamed(agent, question, run_config=CONFIG)
        async for event in result.stream_events():
            answer.pieces += event.type == "raw_response_event" and "delta" in event.data.type
        return result

    @override
    def ask_badly(self) -> None:
        settings = ModelSettings(temperature=base.BAD_VALUE)
        agent = self._build_agent(model_settings=settings)
        asyncio.run(Runner.run(agent, "Hi", run_config=CONFIG))

    @override
    def ask_person(self) -> dict[str, Any]:
        agent = self._build_agent(output_type=Person)
        result = asyncio.run(
            Runner.run(agent, "Describe Alice as JSON, please.", run_config=CONFIG)
        )
        return Person.model_validate(result.final_output).model_dump()


class OpenAIAgentsChat(OpenAIAgents):
    """The same with `OpenAIChatCompletionsModel`."""

    label, api = "openai-agents, chat", "/v1/chat/completions"
    model = OpenAIChatCompletionsModel
