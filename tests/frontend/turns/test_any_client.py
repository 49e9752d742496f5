"""Whatever a client sends back, a prompt is its own rendering or the exact one, never a third."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from typing import Any

from backedge.base.json_types import JsonObject
from backedge.frontend.turns.flags import TurnSettings
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from tests.frontend.turns.conversations import END, Agent, cut_freely, drop_reasoning, result_of
from tests.support import encode, tiny_tokenizer

Messages = list[JsonObject]
TENANTS = ("a", "b")
# As the template writes them; the tokens are cut otherwise.
CALL = '<tool_call>\n{"name": "f", "arguments": {"a": 1}}\n</tool_call>'
OUTPUTS = [
    f"<think>\nI look it up.\n</think>\n\n{CALL}",
    f"<think>\nI look again.\n</think>\n\nWell.\n{CALL}",
    f"<think>\nI add, then I call.\n</think>\n\n{CALL}\n{CALL}",
    "<think>\nI know.\n</think>\n\nThree.",
    f"</think>{CALL}",
]


def change_call(message: JsonObject, **fields: Any) -> JsonObject:
    calls = message.get("tool_calls") or []
    function = [{**call, "function": {**call["function"], **fields}} for call in calls]
    return {**message, "tool_calls": function}


# What a client does to one message.
MUTATIONS: dict[str, Callable[[JsonObject], list[JsonObject]]] = {
    "nothing": lambda message: [message],
    "letter": lambda message: [{**message, "content": f"{message['content'] or ''}."}],
    "spaces": lambda message: [{**message, "content": f" {message['content'] or ''}\n"}],
    "reasoning": lambda message: [{**message, "reasoning_content": "Other."}],
    "no reasoning": lambda message: [{**message, "reasoning_content": ""}],
    "value": lambda message: [change_call(message, arguments='{"a": 2}')],
    "spelling": lambda message: [change_call(message, arguments='{"a":1.0}')],
    "name": lambda message: [change_call(message, name="g")],
    "left out": lambda _: [],
    "twice": lambda message: [message, message],
    "of the user": lambda message: [{"role": "user", "content": message["content"] or ""}],
}


def canonical(messages: Messages) -> str:
    """Return what must be equal for a turn to be the same."""
    parts = []
    for message in messages:
        content = message.get("content") or ""
        calls = [
            [call["id"], call["function"]["name"], json.loads(call["function"]["arguments"])]
            for call in message.get("tool_calls") or ()
        ]
        is_answer = message["role"] == "assistant"
        text = content.strip() if is_answer else content
        parts.append([message["role"], text, calls, message.get("tool_call_id")])
    return json.dumps(parts, sort_keys=True).replace("1.0", "1")


class Clients:
    """Clients of one frontend, and what its prompts may be by the rules of docs/turns.md.

    given: the reasoning, prompt and token ids of each answer, by tenant and conversation.
    """

    def __init__(self, capacity: int) -> None:
        self.agent = Agent(TurnSettings("exact", scope="tenant"), capacity)
        self._plain = Agent(TurnSettings("off"))
        self._given: dict[tuple[str, str], tuple[str, list[int], list[int]]] = {}

    def ask(self, tenant: str, messages: Messages, output: str) -> JsonObject:
        generated = cut_freely(output)
        answer = self.agent.ask(messages, generated, {"tenant": tenant})
        key = tenant, canonical([*messages, answer])
        self._given[key] = answer["reasoning_content"], self.agent.prompt, generated
        return answer

    def render(self, messages: Messages) -> list[int]:
        self._plain.ask(messages, "")
        return self._plain.prompt

    def known(self, tenant: str, messages: Messages) -> list[int]:
        """Return the positions of the messages that repeat an answer to this tenant."""
        return [
            at
            for at, message in enumerate(messages)
            if message["role"] == "assistant"
            and (tenant, canonical(messages[: at + 1])) in self._given
        ]

    def restore(self, tenant: str, messages: Messages, known: tuple[int, ...]) -> list[int]:
        """Return the exact prompt, if the frontend still has the turns at these positions."""
        restored = [dict(message) for message in messages]
        turns = [self._given[tenant, canonical(messages[: at + 1])] for at in known]
        for at, (reasoning, _, _) in zip(known, turns, strict=True):
            if restored[at].get("reasoning_content") is None and reasoning:
                restored[at]["reasoning_content"] = reasoning
        prompt = self.render(restored)
        for _, before, generated in turns:
            turn, _, rest = decode(prompt[len(before) :]).partition(END)
            if prompt[: len(before)] == before and bare(turn) == bare(decode(generated[:-1])):
                prompt = before + generated + encode(rest)
        return prompt


def decode(token_ids: list[int]) -> str:
    text: str = tiny_tokenizer().decode(token_ids, skip_special_tokens=False)
    return text


def bare(text: str) -> str:
    """Return an answer as it is compared: without spaces, a marker of no thought, and 1.0 as 1."""
    return "".join(text.split()).removeprefix("</think>").replace("1.0", "1")


def talk(data: st.DataObject, clients: Clients) -> None:
    """Let a client ask a few times; check each prompt."""
    tenant = data.draw(st.sampled_from(TENANTS))
    messages: Messages = [{"role": "user", "content": data.draw(st.sampled_from(["How?", "Why?"]))}]
    for _ in range(data.draw(st.integers(1, 4))):
        answer = clients.ask(tenant, messages, data.draw(st.sampled_from(OUTPUTS)))
        assert clients.agent.store.size <= clients.agent.store.capacity
        known = clients.known(tenant, messages)
        subsets = [
            subset
            for size in range(len(known), -1, -1)
            for subset in itertools.combinations(known, size)
        ]
        is_small = clients.agent.store.capacity < 1 << 20
        allowed = subsets if is_small else subsets[:1]
        prompt = clients.agent.prompt
        assert any(prompt == clients.restore(tenant, messages, subset) for subset in allowed)
        sends = data.draw(st.booleans())
        messages = [*messages, answer if sends else drop_reasoning(answer)]
        results = answer.get("tool_calls") and [result_of(answer)]
        messages += results or [{"role": "user", "content": "And now?"}]
        at = data.draw(st.integers(0, len(messages) - 1))
        mutation = data.draw(st.sampled_from(sorted(MUTATIONS)))
        messages[at : at + 1] = MUTATIONS[mutation](messages[at])
        tenant = data.draw(st.sampled_from([tenant, tenant, *TENANTS]))
        if not messages:
            return


@settings(max_examples=60, deadline=None, phases=[Phase.explicit, Phase.generate])
@given(st.data(), st.sampled_from([1500, 1 << 20]))
def test_a_prompt_is_the_clients_own_or_the_exact_one(data: st.DataObject, capacity: int) -> None:
    clients = Clients(capacity)
    for _ in range(2):
        talk(data, clients)
