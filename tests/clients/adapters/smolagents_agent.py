"""smolagents: a `ToolCallingAgent` with `OpenAIServerModel`."""

from __future__ import annotations

from typing import Any

from smolagents import ActionStep, FinalAnswerStep, OpenAIServerModel, ToolCallingAgent, tool
from smolagents.models import ChatMessageStreamDelta
from smolagents.monitoring import LogLevel
from typing_extensions import override

from . import base


class Smolagents(base.ClientAdapter):
    """`run`, and `run(stream=True)` with `stream_outputs=True`."""

    label, package = "smolagents", "smolagents"
    conversations = ("agent",)
    error = "AgentGenerationError"

    def _build_agent(self, **options: Any) -> ToolCallingAgent:
        model = OpenAIServerModel(
            base.MODEL,
            api_base=self.base_url,
            api_key=base.KEY,
            client_kwargs={"max_retries": 0},
            **options,
        )
        return ToolCallingAgent(
            tools=[tool(base.get_weather)],
            model=model,
            stream_outputs=True,
            verbosity_level=LogLevel.OFF,
            max_steps=3,
        )

    @override
    def run(self, question: str, *, stream: bool) -> base.Answer:
        agent = self._build_agent()
        answer = base.Answer()
        if stream:
            for event in agent.run(question, stream=True):
                answer.pieces += isinstance(event, ChatMessageStreamDelta)
                if isinstance(event, FinalAnswerStep):
                    answer.content = str(event.output)
        else:
            agent.stream_outputs = False
            answer.content = str(agent.run(question))
        for step in agent.memory.steps:
            for call in (step.tool_calls or ()) if isinstance(step, ActionStep) else ():
                if call.name == base.TOOL_NAME:
                    answer.add_call(call.name, call.arguments)
        return answer

    @override
    def ask_badly(self) -> None:
        self._build_agent(temperature=base.BAD_VALUE).run("Hi")
