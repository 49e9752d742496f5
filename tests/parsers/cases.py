"""Every sample with the parsers it is for, and what is known not to work."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from backedge.parsers.api import Engine
from backedge.parsers.base import ParserNames

from benchmarks.samples.pairs import REASONED_CALLS
from benchmarks.samples.reasoning import REASONING_SAMPLES
from benchmarks.samples.sample import ANSWER, LEAD, NOTE, THOUGHT, Call, Outcome, Sample
from benchmarks.samples.sglang import SGLANG_REASONED_CALLS, SGLANG_REASONING, SGLANG_TOOL_CALLS
from benchmarks.samples.tool_calls import PYTHONIC, TOOL_CALLS


@dataclass(frozen=True)
class Case:
    """A sample, and an engine's names for its parsers. id: as in the tables of differences."""

    id: str
    names: ParserNames
    sample: Sample
    engine: Engine = "vllm"


def build_cases(
    engine: Engine,
    tool_calls: Mapping[str, Sample],
    reasoning_samples: Mapping[str, Sample],
    reasoned_calls: Mapping[tuple[str, str], Sample],
) -> dict[str, Case]:
    """Return an engine's cases by id."""
    tools = [
        Case(f"tool {key}", ParserNames(tool_call=key.split()[0]), sample, engine)
        for key, sample in tool_calls.items()
    ]
    reasoning = [
        Case(f"reasoning {key}", ParserNames(reasoning=key.split()[0]), sample, engine)
        for key, sample in reasoning_samples.items()
    ]
    pairs = [
        Case(f"pair {tool}+{reasoning}", ParserNames(tool, reasoning), sample, engine)
        for (tool, reasoning), sample in reasoned_calls.items()
    ]
    return {case.id: case for case in [*tools, *reasoning, *pairs]}


CASES = build_cases("vllm", TOOL_CALLS, REASONING_SAMPLES, REASONED_CALLS)
SGLANG_CASES = build_cases("sglang", SGLANG_TOOL_CALLS, SGLANG_REASONING, SGLANG_REASONED_CALLS)


@dataclass(frozen=True)
class Difference:
    """What an engine's parser makes of its sample instead of what it should."""

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
        "sends its own start marker as content while it waits for the bracket",
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
        "is not called again once reasoning is over, so the tags of the response stay in "
        "the content",
    ),
    "reasoning hunyuan_a13b": Difference(
        Outcome(THOUGHT, f"{ANSWER}\n</answer>"),
        "is not called again once reasoning is over, so the tag that ends the answer stays in "
        "the content",
    ),
    "pair olmo3+olmo3": Difference(
        Outcome(THOUGHT, f"<function_calls>{PYTHONIC}</function_calls"),
        "looks for the end of reasoning in the token ids; where the marker's last character "
        "shares a token with "
        "the next text it is not found, and the tool parser is never asked",
    ),
}

SGLANG_DIFFERENCES: dict[str, Difference] = {
    "pair gpt-oss+gpt-oss": Difference(
        Outcome(THOUGHT, LEAD * 2, (Call("add_note", NOTE),)),
        "writes text before a call twice, with both parsers",
    ),
}

# What a worker does not start with, and what it says.
REFUSED: dict[str, str] = {"tool phi4_mini_json": "returns neither calls nor text when it streams"}

# Constructed only with a model of this architecture; refused at the worker's start with any other.
ARCHITECTURE_BOUND = {case.id for case in CASES.values() if case.sample.architecture}


@dataclass(frozen=True)
class EngineCases:
    """All cases of an engine, and the errors of its parsers. title: the engine's name."""

    title: str
    cases: Mapping[str, Case]
    differences: Mapping[str, Difference]


ENGINES = (
    EngineCases("vLLM", CASES, KNOWN_DIFFERENCES),
    EngineCases("SGLang", SGLANG_CASES, SGLANG_DIFFERENCES),
)
