"""The Vercel AI SDK in Node.js, with its providers for the three APIs."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any, ClassVar

import pytest
from typing_extensions import override

from . import base

ROOT = Path(__file__).parents[3]
SCRIPT = ROOT / "tests" / "clients" / "vercel" / "ask.mjs"
# Node.js looks for packages beside the script.
FOLDER = ROOT / ".venv-clients" / "vercel"
TIMEOUT_S = 60
# Dynamo sends reasoning items only if a summary is asked for, and the SDK asks OpenAI's own models
# alone unless it is told.
SHOW_REASONING = {
    "providerOptions": {"openai": {"forceReasoning": True, "reasoningSummary": "auto"}}
}


class AICallError(Exception):
    """What the SDK throws: `AI_APICallError` with the status and body of the HTTP answer.

    The body says what is wrong; Dynamo's is not of OpenAI's form, so `message` is the status.
    """

    def __init__(self, error: dict[str, Any]) -> None:
        super().__init__(f"{error['name']}: {error['message']}: {error.get('responseBody')}")
        self.status_code = error.get("statusCode")


class VercelAI(base.ClientAdapter):
    """`generateText` and `streamText`, which call the tools themselves."""

    label, package = "Vercel AI SDK", "@ai-sdk/openai-compatible"
    reasoning = "`reasoningText`"
    structured = "`Output.object`"
    error = "AICallError"
    provider: ClassVar[str] = "compatible"
    bad_option: ClassVar[str] = "temperature"

    def _call(self, task: str, question: str, **options: Any) -> Any:
        if not (FOLDER / "node_modules").is_dir():
            pytest.skip("the packages for Node.js could not be had")
        shutil.copy(SCRIPT, FOLDER)
        request = {
            "provider": self.provider,
            "baseURL": self.base_url,
            "apiKey": base.KEY,
            "model": base.MODEL,
            "tool": {"name": base.TOOL_NAME, "description": base.TOOL_DESCRIPTION},
            "weather": base.WEATHER,
            "task": task,
            "question": question,
            **options,
        }
        printed = subprocess.run(
            ["node", SCRIPT.name, json.dumps(request)],
            cwd=FOLDER,
            capture_output=True,
            check=True,
            text=True,
            timeout=TIMEOUT_S,
        ).stdout
        result = json.loads(printed.splitlines()[-1])
        if "error" in result:
            raise AICallError(result["error"])
        return result["answer"]

    @override
    def run(self, question: str, *, stream: bool) -> base.Answer:
        result = self._call("run", question, stream=stream, options=SHOW_REASONING)
        answer = base.Answer(content=result["content"], pieces=result["pieces"])
        for text in result["reasoning"]:
            answer.add_reasoning(text)
        for name, values in result["calls"]:
            answer.add_call(name, values)
        return answer

    @override
    def ask_badly(self) -> None:
        self._call("badly", "Hi", options={self.bad_option: base.BAD_VALUE})

    @override
    def ask_person(self) -> dict[str, Any]:
        person: dict[str, Any] = self._call("person", "Describe Alice as JSON, please.")
        return person


class VercelOpenAI(VercelAI):
    """The same over `/v1/responses`; it reads summaries of reasoning alone."""

    label, package, api = "Vercel AI SDK, responses", "@ai-sdk/openai", "/v1/responses"
    reasoning = ""
    provider = "openai"


class VercelAnthropic(VercelAI):
    """The same over `/v1/messages`."""

    label, package, api = "Vercel AI SDK, messages", "@ai-sdk/anthropic", "/v1/messages"
    provider = "anthropic"
    # It cuts a temperature down to what Anthropic allows.
    bad_field, bad_option = "top_p", "topP"
