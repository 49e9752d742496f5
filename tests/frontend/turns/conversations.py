"""Agents that talk to the example model through the frontend, and what they send back."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Sequence
from typing import Any

from backedge.base.json_types import JsonObject
from backedge.engines.transformers.frontend import HuggingFacePrompts
from backedge.frontend.chat_model import ChatModel
from backedge.frontend.prompt_preprocessor import PromptPreprocessor
from backedge.frontend.prompt_queue import PromptQueue
from backedge.frontend.turns.flags import TurnSettings
from backedge.frontend.turns.shared_turns import SharedTurns
from backedge.frontend.turns.turn_keeper import TurnKeeper
from backedge.frontend.turns.turn_store import TurnCounts, TurnStore
from backedge.guided.call_policy import CallPolicy

from tests.frontend.chat_requests import FILES, TOOL, raw_request
from tests.frontend.doubles import Annotated, Context, Engine, deployment
from tests.support import encode, tiny_detokenizers, tiny_parsers, tiny_tokenizer

QUESTION = {"role": "user", "content": "How many?"}
THOUGHT = "I look it up."
# The spelling that the template does not have: no space behind a colon.
CALL = '<tool_call>\n{"name":"f","arguments":{"a":1}}\n</tool_call>'
CALLING = f"<think>\n{THOUGHT}\n</think>\n\n{CALL}"
END = "<|im_end|>"


class TenantContext(Context):
    """A request with the headers x-dynamo-meta-*."""

    def __init__(self, metadata: dict[str, str]) -> None:
        self.metadata = metadata


class AnsweringEngine(Engine):
    """Yields what the next answer is to be."""

    outputs: Sequence[JsonObject] = ()

    async def _stream(self) -> AsyncIterator[Annotated]:
        for output in self.outputs:
            yield Annotated(output)


# One loop for all: each stays open, with five files, until it is closed.
RUNNER = asyncio.Runner()


class Agent:
    """Sends requests through one frontend to a model that answers as told.

    context_length: of the workers; None for the model's own.
    """

    def __init__(
        self,
        settings: TurnSettings,
        capacity: int = 1 << 20,
        shared: SharedTurns | None = None,
        context_length: int | None = None,
    ) -> None:
        self.engine = AnsweringEngine([])
        prompts = HuggingFacePrompts(
            FILES.prompt_token_ids, {}, CallPolicy(enabled=False), has_reasoning_parser=True
        )
        queue = PromptQueue(threads=1)
        factories = tiny_detokenizers(), tiny_parsers()
        preprocessor = PromptPreprocessor(prompts, FILES, queue, context_length)
        self.store = TurnStore(capacity)
        keeper = TurnKeeper(settings, self.store, queue, lambda: factories, shared, context_length)
        self.model = ChatModel(
            deployment(self.engine), preprocessor, lambda: factories, turns=keeper
        )

    @property
    def counts(self) -> TurnCounts:
        """The store's counters."""
        return self.store.counts

    @property
    def prompt(self) -> list[int]:
        """The token ids of the last prompt."""
        token_ids: list[int] = self.engine.requests[-1]["token_ids"]
        return token_ids

    @property
    def prompt_text(self) -> str:
        """The last prompt as text."""
        text: str = tiny_tokenizer().decode(self.prompt, skip_special_tokens=False)
        return text

    def ask(
        self,
        messages: list[JsonObject],
        output: str | list[int],
        headers: dict[str, str] | None = None,
        end: str = "<|im_end|>",
        finish_reason: str = "stop",
        **fields: Any,
    ) -> JsonObject:
        """Return the assistant's message as OpenAI's client shows it.

        output: of the model, as text without its `end` or as token ids.
        """
        token_ids = encode(output + end) if isinstance(output, str) else output
        self.engine.outputs = [
            {"index": 0, "token_ids": token_ids[:5]},
            {"index": 0, "token_ids": token_ids[5:], "finish_reason": finish_reason},
        ]
        request = raw_request(**{"messages": messages, "tools": [TOOL], **fields})
        context = Context() if headers is None else TenantContext(headers)
        self.sent = list[JsonObject]()
        return RUNNER.run(collect(self.model, request, context, self.sent))


async def collect(
    model: ChatModel, request: JsonObject, context: Context, sent: list[JsonObject]
) -> JsonObject:
    """Return the whole message of a stream, and add its chunks to `sent`."""
    message: JsonObject = {"role": "assistant", "content": "", "reasoning_content": ""}
    calls: dict[int, JsonObject] = {}
    async for item in model.answer(request, context):
        sent.append(item)
        for choice in item.get("data", {}).get("choices", ()):
            delta = choice["delta"]
            for field in ("content", "reasoning_content"):
                message[field] += delta.get(field) or ""
            for part in delta.get("tool_calls", ()):
                call = calls.setdefault(
                    part["index"], {"type": "function", "function": {"name": "", "arguments": ""}}
                )
                call["id"] = part.get("id") or call["id"]
                for field in ("name", "arguments"):
                    call["function"][field] += part["function"].get(field) or ""
    return message | ({"tool_calls": list(calls.values())} if calls else {})


def drop_reasoning(message: JsonObject) -> JsonObject:
    """Return the message as most frameworks send it back."""
    return {
        "role": "assistant",
        "content": message["content"].strip() or None,
        "tool_calls": [
            {
                **call,
                "function": {
                    "name": call["function"]["name"],
                    "arguments": json.dumps(json.loads(call["function"]["arguments"]), indent=1),
                },
            }
            for call in message.get("tool_calls", ())
        ],
    }


def cut_freely(text: str) -> list[int]:
    """Return token ids that the tokenizer would not make of the whole text."""
    parts = re.findall(r"</?\w+>|[^<]{1,2}|<", text)
    return [token_id for part in [*parts, END] for token_id in encode(part)]


def result_of(message: JsonObject, content: str = "3") -> JsonObject:
    """Return a tool's result for the message's first call."""
    return {"role": "tool", "tool_call_id": message["tool_calls"][0]["id"], "content": content}
