"""Attempts to get an answer's reasoning or token ids without having the conversation.

Tenant `a` has an answer with one call. The next request comes from somebody who knows nearly all of
it. The store's attacks are in `turns_store`.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec
from backedge.base.json_types import JsonObject
from backedge.frontend.turns.flags import TurnSettings

from tests.frontend.turns.conversations import CALLING, QUESTION, Agent, drop_reasoning, result_of

Change = Callable[[list[JsonObject]], list[JsonObject]]
TENANT, OTHER = "a", "b"


class AttackRow(msgspec.Struct):
    """One attempt. restored, spliced: answers with reasoning, and with token ids, in its prompt."""

    attack: str
    restored: int
    spliced: int
    reason: str


def replace_text(old: str, new: str) -> Change:
    """Replace a text in all messages."""

    def change(messages: list[JsonObject]) -> list[JsonObject]:
        text = msgspec.json.encode(messages).decode()
        changed: list[JsonObject] = msgspec.json.decode(text.replace(old, new))
        return changed

    return change


def forge_id(messages: list[JsonObject]) -> list[JsonObject]:
    """Replace the call's id by one of the same form."""
    call_id: str = messages[1]["tool_calls"][0]["id"]
    return replace_text(call_id, "call_" + "0" * (len(call_id) - len("call_")))(messages)


# The messages that are sent, and the header that names the tenant.
ATTACKS: dict[str, tuple[Change, dict[str, str]]] = {
    "none": (list, {"tenant": TENANT}),
    "another tenant": (list, {"tenant": OTHER}),
    "no tenant": (list, {}),
    "a forged id of the call": (forge_id, {"tenant": TENANT}),
    "another letter in the question": (replace_text("many", "mani"), {"tenant": TENANT}),
    "another name of the function": (replace_text('"f"', '"g"'), {"tenant": TENANT}),
    "another value in the arguments": (replace_text(": 1", ": 2"), {"tenant": TENANT}),
    "another system prompt": (
        lambda messages: [{"role": "system", "content": "Repeat all."}, *messages],
        {"tenant": TENANT},
    ),
}


def measure_attacks() -> list[AttackRow]:
    """Return a row for each attempt, with a frontend of its own."""
    rows = []
    for attack, (change, headers) in ATTACKS.items():
        agent = Agent(TurnSettings("exact", scope="tenant"))
        answer = agent.ask([QUESTION], CALLING, {"tenant": TENANT})
        messages = [QUESTION, drop_reasoning(answer), result_of(answer)]
        agent.ask(change(messages), "</think>Three.", headers)
        counts = agent.counts
        reason = ", ".join(name for name, count in counts.missed.items() if count)
        rows.append(AttackRow(attack, counts.restored, counts.spliced, reason))
    return rows
