"""DeepSeek R1, Holo 2 and Kimi VL: reasoning in tags, without calls of their own."""

from __future__ import annotations

from benchmarks.samples.sample import Outcome
from tests.parsers.families.family import HISTORY, TURN, Case, Family, Tags

PROMPT = HISTORY + TURN
THINK = ("<think>", "</think>")


def only_text(case: str, output: str, outcome: Outcome, finish: str = "stop") -> Case:
    """Return a case without tools."""
    return Case(case, output, outcome, tools=(), prompt=PROMPT, finish=finish)


# They reason although neither the prompt nor they themselves open it.
UNOPENED = (
    only_text(
        "nobody opens it", "17 plus 25.</think>It is 42.", Outcome("17 plus 25.", "It is 42.")
    ),
    only_text("nobody opens or ends it", "17 plus 25 is", Outcome("17 plus 25 is")),
    only_text("nobody opens it, cut", "17 plus", Outcome("17 plus"), finish="length"),
    only_text("ended at once", "</think>It is 42.", Outcome(None, "It is 42.")),
    only_text(
        "the start again in its midst",
        "One <think> two.</think>Three.",
        Outcome("One <think> two.", "Three."),
    ),
    only_text(
        "line breaks around the tags",
        "<think>\nOne.\n</think>\n\nTwo.",
        Outcome("\nOne.\n", "\n\nTwo."),
    ),
)

FAMILIES = (
    Family(reasoning_parser="deepseek_r1", tags=Tags(), markers=THINK, cases=UNOPENED),
    Family(reasoning_parser="holo2", tags=Tags(), markers=THINK, cases=UNOPENED),
    Family(reasoning_parser="basic", tags=Tags(), markers=THINK),
    Family(
        reasoning_parser="kimi",
        tags=Tags("◁think▷", "◁/think▷", prompt_open="◁think▷", prompt_closed="◁think▷◁/think▷"),
        markers=("◁think▷", "◁/think▷"),
        cases=(
            only_text("no tags", "It is 42.", Outcome(None, "It is 42.")),
            only_text(
                "tags of other models", "<think>One.</think>", Outcome(None, "<think>One.</think>")
            ),
        ),
    ),
)
