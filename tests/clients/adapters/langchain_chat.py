"""langchain-openai: `ChatOpenAI`, over chat completions and over responses."""

from __future__ import annotations

from typing import Any, ClassVar

from langchain_core.messages import BaseMessage, HumanMessage, ToolMessage
from langchain_openai import ChatOpenAI
from typing_extensions import override

from . import base
from .openai_chat import TOOL, Person
from .openai_responses import SHOW_REASONING


class LangChain(base.ClientAdapter):
    """`ChatOpenAI` with `invoke`, `stream`, `bind_tools` and `with_structured_output`."""

    label, package = "langchain-openai", "langchain-openai"
    structured = "`with_structured_output`"
    error = "OpenAIInvalidRequestError"
    with_responses: ClassVar[bool] = False

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.options: dict[str, Any] = {
            "model": base.MODEL,
            "base_url": self.base_url,
            "api_key": base.KEY,
            "max_retries": 0,
            "use_responses_api": self.with_responses,
        }

    @override
    def run(self, question: str, *, stream: bool) -> base.Answer:
        model = ChatOpenAI(**self.options).bind_tools([TOOL])
        answer = base.Answer()
        messages: list[BaseMessage] = [HumanMessage(question)]
        while True:
            if stream:
                chunks = list(model.stream(messages))
                answer.pieces += len(chunks)
                message: Any = sum(chunks[1:], chunks[0])
            else:
                message = model.invoke(messages)
            for block in message.content_blocks:
                if block["type"] == "reasoning":
                    answer.add_reasoning(block.get("reasoning"))
            if not message.tool_calls:
                answer.content = message.text
                return answer
            messages.append(message)
            messages += [
                ToolMessage(answer.add_call(call["name"], call["args"]), tool_call_id=call["id"])
                for call in message.tool_calls
            ]

    @override
    def ask_badly(self) -> None:
        ChatOpenAI(**self.options, temperature=base.BAD_VALUE).invoke("Hi")

    @override
    def ask_person(self) -> dict[str, Any]:
        model = ChatOpenAI(**self.options).with_structured_output(Person, method="json_schema")
        person: Any = model.invoke("Describe Alice as JSON, please.")
        return Person.model_validate(person).model_dump()


class LangChainResponses(LangChain):
    """The same with `use_responses_api=True`; it reads summaries of reasoning alone."""

    label, api = "langchain-openai, responses", "/v1/responses"
    with_responses = True

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.options |= SHOW_REASONING
