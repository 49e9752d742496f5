"""Every sample with the parsers it is for, and what is known not to work."""

from __future__ import annotations

from dataclasses import dataclass

from tests.samples.pairs import REASONED_CALLS
from tests.samples.reasoning import REASONING_SAMPLES
from tests.samples.sample import ANSWER, LEAD, NOTE, THOUGHT, Call, Outcome, Sample
from tests.samples.tool_calls import PYTHONIC, TOOL_CALLS


@dataclass(frozen=True)
class Case:
    """A sample and the parsers' names. id: as in the tables of differences."""

    id: str
    tool_call_parser: str | None
    reasoning_parser: str | None
    sample: Sample


def _cases() -> dict[str, Case]:
    tools = [Case(f"tool {key}", key.split()[0], None, sample) for key, sample in TOOL_CALLS.items()]
    reasoning = [Case(f"reasoning {key}", None, key.split()[0], sample) for key, sample in REASONING_SAMPLES.items()]
    pairs = [
        Case(f"pair {tool}+{reasoning}", tool, reasoning, sample)
        for (tool, reasoning), sample in REASONED_CALLS.items()
    ]
    return {case.id: case for case in [*tools, *reasoning, *pairs]}


CASES = _cases()


@dataclass(frozen=True)
class Difference:
    """What a parser of vLLM's makes of its sample instead of what it should."""

    gives: Outcome
    why: str


# A difference that is gone fails its test, so that this table stays true.
KNOWN_DIFFERENCES: dict[str, Difference] = {
    "tool functiongemma": Difference(
        Outcome(calls=(Call("add_note", {"text": NOTE["text"]}),)),
        "reads only arguments in quote marks, so it loses the number",
    ),
    "tool hunyuan_a13b": Difference(
        Outcome(content="<tool_calls>", calls=(Call("add_note", NOTE),)),
        "passes on its own start marker as content while it waits for the bracket behind it",
    ),
    "tool internlm": Difference(
        Outcome(content=LEAD, calls=(Call("add_note", '{"text": "Olé, \\"Ann\\"!, "count": 3'),)),
        "loses the quote that ends a string in front of another argument, and the last brace",
    ),
    "tool jamba": Difference(
        Outcome(content=LEAD, calls=(Call("add_note", '{"text": "Olé, \\"Ann\\"!, "count": 3'),)),
        "loses the quote that ends a string in front of another argument, and the last brace",
    ),
    "reasoning ernie45": Difference(
        Outcome(THOUGHT, f"\n\n<response>\n{ANSWER}</response>\n"),
        "is not asked any more once reasoning is over, so the tags of the response stay in the content",
    ),
    "reasoning hunyuan_a13b": Difference(
        Outcome(THOUGHT, f"{ANSWER}\n</answer>"),
        "is not asked any more once reasoning is over, so the tag that ends the answer stays in the content",
    ),
    "pair olmo3+olmo3": Difference(
        Outcome(THOUGHT, f"<function_calls>{PYTHONIC}</function_calls"),
        "looks for the end of reasoning in the token ids; where the marker's last character shares a token with "
        "the next text it is not found, and the tool parser is never asked",
    ),
}

# What a worker does not start with, and what it says.
REFUSED: dict[str, str] = {"tool phi4_mini_json": "gives nothing at all, neither calls nor text, when it streams"}

# Constructed only with a model of this architecture; refused at the worker's start with any other.
ARCHITECTURE_BOUND = {case.id for case in CASES.values() if case.sample.architecture}
