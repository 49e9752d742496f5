"""MiniMax M3's reasoning: `<mm:think>...</mm:think>`."""

from __future__ import annotations

from tests.parsers.families.family import Case, Family, Tags
from tests.samples.sample import Outcome

FAMILY = Family(
    reasoning_parser="minimax_m3",
    tags=Tags("<mm:think>", "</mm:think>", prompt_open="<mm:think>", prompt_closed="</mm:think>"),
    markers=("<mm:think>", "</mm:think>"),
    cases=(Case("the end of reasoning at the beginning", "</mm:think>Hi.", Outcome(None, "Hi."), tools=()),),
)
