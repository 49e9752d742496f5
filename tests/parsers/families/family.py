"""What a family of models writes, case by case, and what is to be read from it.

A family says how its chat template writes calls; the scenarios say what is
called. So the expected result is what went in, and no parser had a hand in it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from backedge.parsers.base import ParserNames

from benchmarks.samples.sample import Call, Outcome

Arguments = dict[str, Any]
Invocation = tuple[str, Arguments]


def function(name: str, **properties: Any) -> dict[str, Any]:
    """Return a tool; a property is a JSON type, a list of these, or a schema."""
    schemas = {
        key: declared if isinstance(declared, dict) else {"type": declared}
        for key, declared in properties.items()
    }
    parameters = {"type": "object", "properties": schemas}
    return {"type": "function", "function": {"name": name, "parameters": parameters}}


TOOLS = (
    function("write", path="string", text="string"),
    function("add", a="integer", b="number", exact="boolean", label=["string", "null"]),
    function("query", filter="object", tags="array", limit="integer"),
    function("now"),
)


@dataclass(frozen=True)
class Scenario:
    """What the model says and calls, whatever its syntax."""

    id: str
    calls: tuple[Invocation, ...] = ()
    content: str = ""
    behind: str = ""


LONG_TEXT = "".join(f"def f{n}(x):\n    return {{'n': {n}, \"x\": x}}\n\n" for n in range(40))
SCENARIOS = (
    Scenario("text", content="No call, just {text} with [brackets] and <tags>."),
    Scenario("one call", (("write", {"path": "a.txt", "text": "hi"}),)),
    Scenario("text and a call", (("write", {"path": "a.txt", "text": "hi"}),), "I write it."),
    Scenario("two calls", (("write", {"path": "a", "text": "x"}), ("add", {"a": 1, "b": 2.5}))),
    Scenario("three of one", tuple(("write", {"path": f"{n}", "text": f"t{n}"}) for n in range(3))),
    Scenario("no arguments", (("now", {}),)),
    Scenario("a call behind one without arguments", (("now", {}), ("add", {"a": 1, "b": 2.0}))),
    Scenario("nested",
             (("query",
               {"filter": {"a": {"b": [1, {"c": None}], "d": {}}, "e": []}, "limit": 3}),)),
    Scenario("lists", (("query", {"tags": ["x", "y, z", "[q]", 'say "w"'], "filter": {}}),)),
    Scenario("scripts", (("write", {"path": "Münster", "text": "你好 👋🏽 naïve Ω\u00a0é"}),),
             "Höre 世界 👍."),
    Scenario("quotes and backslashes",
             (("write", {"path": 'C:\\new\\"x"', "text": 'say "hi" \\n it\'s \\"so\\"'}),)),
    Scenario("lines", (("write", {"path": "a", "text": "first\n\n  second\tx\nthird"}),)),
    Scenario("braces", (("write", {"path": "test/{a,b}", "text": "}{ ]} [({"}),)),
    Scenario("types", (("add", {"a": -12, "b": 0.5, "exact": True, "label": None}),)),
    Scenario("strings that look like other types", (("write", {"path": "3", "text": "true"}),)),
    Scenario("an empty string", (("write", {"path": "a", "text": ""}),)),
    Scenario("a long string", (("write", {"path": "f.py", "text": LONG_TEXT.strip()}),)),
    Scenario("markup",
             (("write", {"path": "<b>x</b>", "text": "<a href='y'>&amp; <br/></a> 1 < 2 > 0"}),)),
)  # fmt: skip
SCENARIOS_BY_ID = {scenario.id: scenario for scenario in SCENARIOS}


@dataclass(frozen=True)
class Thought:
    """Reasoning and what follows it, whatever the tags.

    prompt: "open" or "closed" if the prompt has left reasoning so; "history" if an
        earlier turn of the prompt holds a whole one; "" if it says nothing.
    tagged: the model writes the tag that opens reasoning. ended: and the one that ends it.
    """

    id: str
    reasoning: str
    content: str = ""
    prompt: str = ""
    tagged: bool = True
    ended: bool = True
    finish: str = "stop"


THOUGHTS = (
    Thought("reasoning and text", "17 plus 25.", "It is 42."),
    Thought("reasoning in lines", "First.\n\nThen <b>this</b>:\n- a < b\n- {c}",
            "Done.\n\nReally."),
    Thought("reasoning in scripts", "世界 👋🏽 é", "Ωmega 好"),
    Thought("no text behind", "Only this."),
    Thought("no reasoning inside", "", "At once."),
    Thought("opened by the prompt", "17 plus 25.", "It is 42.", prompt="open", tagged=False),
    Thought("opened by the prompt, cut", "17 plus", prompt="open", tagged=False, ended=False,
            finish="length"),
    Thought("opened by the prompt, never ended", "17 plus 25", prompt="open", tagged=False,
            ended=False),
    Thought("closed by the prompt", "", "It is 42.", prompt="closed", tagged=False, ended=False),
    Thought("behind an earlier turn", "So 42.", "It is 42.", prompt="history"),
    Thought("cut in its midst", "17 plus", ended=False, finish="length"),
    Thought("a long one", "One step. " * 200, "Done."),
    Thought("code in the text", "Show it.", "```python\nx = [1]\n```\nand `y`."),
    Thought("quotes", "He said \"no\" and 'yes' \\ maybe.", 'A "quote".'),
    Thought("one letter", "x", "y"),
)  # fmt: skip
TURN = "<|im_start|>assistant\n"
HISTORY = "<|im_start|>user\nGo on.<|im_end|>\n"


@dataclass(frozen=True)
class Tags:
    """How a family writes reasoning.

    start, end: around it. prompt_open, prompt_closed: what the chat template ends
        with when it opens reasoning itself, or switches it off; None if it never does.
    leaves_out: thoughts that its syntax cannot express, by id, and why.
    """

    start: str = "<think>"
    end: str = "</think>"
    prompt_open: str | None = "<think>\n"
    prompt_closed: str | None = "<think>\n\n</think>\n\n"
    leaves_out: Mapping[str, str] = field(default_factory=dict)

    def cases(self) -> list[Case]:
        """Return the thoughts in these tags."""
        endings = {"open": self.prompt_open, "closed": self.prompt_closed, "history": "", "": ""}
        return [
            Case(
                thought.id,
                (self.start if thought.tagged else "")
                + thought.reasoning
                + (self.end if thought.ended else "")
                + thought.content,
                Outcome(thought.reasoning or None, thought.content or None),
                finish=thought.finish,
                tools=(),
                prompt=self._prompt(thought, endings[thought.prompt] or ""),
            )
            for thought in THOUGHTS
            if thought.id not in self.leaves_out and endings[thought.prompt] is not None
        ]

    def _prompt(self, thought: Thought, ending: str) -> str:
        earlier = (
            f"{TURN}{self.start}Earlier.{self.end}Yes.<|im_end|>\n"
            if thought.prompt == "history"
            else ""
        )
        return HISTORY + earlier + TURN + ending


@dataclass(frozen=True)
class Case:
    """One output and what is to be read from it.

    expected: what the client gets. finish: "stop", or "length" if generation was cut.
    tools: of the request; None for `TOOLS`. prompt: what precedes the output.
    vllm: what vLLM's batch parser makes of it instead, and why ours is right;
        "" if it agrees. A difference that is gone fails its test.
    unfinished: the model stopped within the last call, or its arguments are no JSON.
    """

    id: str
    output: str
    expected: Outcome
    finish: str = "stop"
    tools: tuple[dict[str, Any], ...] | None = None
    prompt: str = ""
    vllm: str = ""
    unfinished: bool = False


@dataclass(frozen=True)
class Family:
    """A format and how its models write.

    tool_parser, reasoning_parser: names in our registry.
    write: content and calls to the model's output, as its chat template does.
    markers: what its tokenizers have as single tokens; special ones in `special`.
    tags: how it reasons, for a format with reasoning.
    think: reasoning to the model's output in front of what `write` returns; `tags` if None.
    leaves_out: scenarios that its syntax cannot express, by id, and why.
    vllm: the name of the vLLM tool parser to compare with; None if there is none.
    vllm_differs: scenarios that vLLM's batch parser reads otherwise, by id, and why ours is right.
    cases: what the scenarios do not show: the syntax's variants, malformed output, reasoning.
    prompt: precedes the outputs of cases that name none, for models that reason unless it says not.
    """

    tool_parser: str | None = None
    write: Callable[[str, Sequence[Invocation]], str] | None = None
    markers: tuple[str, ...] = ()
    special: tuple[str, ...] = ()
    reasoning_parser: str | None = None
    tags: Tags | None = None
    think: Callable[[str], str] | None = None
    leaves_out: Mapping[str, str] = field(default_factory=dict)
    vllm: str | None = None
    vllm_differs: Mapping[str, str] = field(default_factory=dict)
    cases: tuple[Case, ...] = ()
    prompt: str = ""

    @property
    def name(self) -> str:
        return self.tool_parser or self.reasoning_parser or ""

    @property
    def names(self) -> ParserNames:
        """The parsers with which a worker of the family's models starts."""
        return ParserNames(self.tool_parser, self.reasoning_parser)

    @property
    def ids(self) -> dict[str, int]:
        """The ids of the family's tokens."""
        markers = dict.fromkeys((*self.markers, *self.special))
        return {marker: token for token, marker in enumerate(markers, start=1)}

    def write_thought(self, reasoning: str) -> str:
        """Write reasoning, as it stands in front of what `write` returns."""
        if self.think is not None:
            return self.think(reasoning)
        assert self.tags is not None
        return self.tags.start + reasoning + self.tags.end

    def all_cases(self) -> list[Case]:
        """Return the scenarios in this family's syntax, and its own cases."""
        written = [
            Case(
                scenario.id,
                self.write(scenario.content, scenario.calls),
                Outcome(
                    None, scenario.content or None, tuple(Call(*call) for call in scenario.calls)
                ),
                vllm=self.vllm_differs.get(scenario.id, ""),
            )
            for scenario in SCENARIOS
            if self.write is not None and scenario.id not in self.leaves_out
        ]
        thoughts = self.tags.cases() if self.tags is not None else ()
        return [
            replace(case, prompt=case.prompt or self.prompt)
            for case in (*written, *thoughts, *self.cases)
        ]
