"""DeepSeek V3.2, V4 and V4.1: DSML, in which each parameter says whether it is a string.

GigaChat 3.5 writes the same under another name.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from benchmarks.samples.sample import Call, Outcome
from tests.parsers.families.family import Case, Family, Invocation, Tags, function

Writer = Callable[[str, Sequence[Invocation]], str]
FREE = (function("free"),)
TEXT = {"text": "hi"}
SPREADS = "puts the members of such a parameter in its place"


def parameter(tag: str, key: str, value: Any) -> str:
    """Write one parameter."""
    string = isinstance(value, str)
    text = value if string else json.dumps(value, ensure_ascii=False)
    return f'<{tag}parameter name="{key}" string="{json.dumps(string)}">{text}</{tag}parameter>'


def writer(block: str, tag: str) -> Writer:
    """Return what writes as the model's own encoding does. block: the outer tag's name."""

    def write(content: str, calls: Sequence[Invocation]) -> str:
        written = []
        for name, arguments in calls:
            parameters = "\n".join(parameter(tag, key, value) for key, value in arguments.items())
            written.append(f'<{tag}invoke name="{name}">\n{parameters}\n</{tag}invoke>')
        return content + (
            f"\n\n<{tag}{block}>\n" + "\n".join(written) + f"\n</{tag}{block}>" if calls else ""
        )

    return write


def cases(write: Writer, block: str, tag: str) -> tuple[Case, ...]:
    """Return what the scenarios do not show, in one version's tags."""
    now = write("", [("now", {})])
    begin, end = f"<{tag}{block}>", f"</{tag}{block}>"
    open_, close = f'{begin}\n<{tag}invoke name="add">\n', f"\n</{tag}invoke>\n{end}"
    return (
        Case("undeclared parameters are what they say",
             write("", [("free", {"x": "3", "y": 3, "z": {"k": [None]}})]),
             Outcome(calls=(Call("free", {"x": "3", "y": 3, "z": {"k": [None]}}),)), tools=FREE),
        Case("no attribute", f'{open_}<{tag}parameter name="a">3</{tag}parameter>{close}',
             Outcome(calls=(Call("add", {"a": 3}),))),
        Case("no JSON where it is announced",
             f'{open_}<{tag}parameter name="a" string="false">many</{tag}parameter>{close}',
             Outcome(calls=(Call("add", {"a": "many"}),))),
        Case("one JSON object for all parameters",
             f'{begin}\n<{tag}invoke name="write">\n{{"text": "hi"}}\n</{tag}invoke>\n{end}',
             Outcome(calls=(Call("write", TEXT),)), vllm="loses the parameters"),
        Case("white space of a string is its own", write("", [("write", {"text": "\n x \n"})]),
             Outcome(calls=(Call("write", {"text": "\n x \n"}),))),
        Case("end markers in a value",
             write("", [("write", {"text": f'a {end} b </{tag}invoke> "> c'})]),
             Outcome(calls=(Call("write", {"text": f'a {end} b </{tag}invoke> "> c'}),)),
             vllm="loses the parameter"),
        Case("no white space",
             f'{begin}<{tag}invoke name="write">{parameter(tag, "text", "hi")}</{tag}invoke>{end}',
             Outcome(calls=(Call("write", TEXT),))),
        Case("no block around the call",
             f'<{tag}invoke name="write">\n{parameter(tag, "text", "hi")}\n</{tag}invoke>',
             Outcome(calls=(Call("write", TEXT),))),
        Case("no end of the block",
             f'{begin}\n<{tag}invoke name="write">\n{parameter(tag, "text", "hi")}\n</{tag}invoke>',
             Outcome(calls=(Call("write", TEXT),))),
        Case("no end of the call", f"{open_}{parameter(tag, 'a', 3)}\n{end}",
             Outcome(calls=(Call("add", {"a": 3}),))),
        Case("all parameters in one",
             write("", [("write", {"arguments": {"path": "a", "text": "b"}})]),
             Outcome(calls=(Call("write", {"arguments": {"path": "a", "text": "b"}}),)),
             vllm=SPREADS),
        Case("all parameters in one, as a string",
             write("", [("write", {"input": '{"path": "a"}'})]),
             Outcome(calls=(Call("write", {"input": '{"path": "a"}'}),)),
             vllm=SPREADS),
        Case("a parameter that is only named so", write("", [("write", {"input": {"c": 1}})]),
             Outcome(calls=(Call("write", {"input": {"c": 1}}),))),
        Case("no end of the first call",
             write("", [("add", {"a": 1}), ("now", {})]).replace(f"</{tag}invoke>", "", 1),
             Outcome(calls=(Call("add", {"a": 1}), Call("now", {}))),
             vllm="loses the second call"),
        Case("no end of a parameter",
             write("", [("write", {"path": "a", **TEXT})]).replace(f"</{tag}parameter>", "", 1),
             Outcome(calls=(Call("write", {"path": "a", **TEXT}),)),
             vllm="takes the line break before the next parameter for the value's"),
        Case("no end of a parameter, not a string",
             write("", [("add", {"a": 1, "b": 2})]).replace(f"</{tag}parameter>", "", 1),
             Outcome(calls=(Call("add", {"a": 1, "b": 2}),))),
        Case("two blocks", f"{now}\n{now}", Outcome(calls=(Call("now", {}), Call("now", {})))),
        Case("text behind", f"{now}\nDone.", Outcome(None, "Done.", (Call("now", {}),)),
             vllm="drops text behind a call"),
        Case("a marker that begins no call", f"Use {begin} to call.",
             Outcome(None, f"Use {begin} to call."), vllm="drops the marker and what follows it"),
        Case("cut in the marker", f"Hi {begin[:12]}", Outcome(None, "Hi "),
             finish="length", vllm="shows half of the marker"),
        Case("cut in a parameter's head", f'{open_}<{tag}parameter name="a" str',
             Outcome(), finish="length", vllm="gives a call without arguments"),
        Case("cut in a value",
             f'{begin}\n<{tag}invoke name="write">\n<{tag}parameter name="text" string="true">ab',
             Outcome(calls=(Call("write", '{"text": "ab'),)), finish="length",
             vllm="loses the parameter"),
    )  # fmt: skip


def thinking_cases(write: Writer) -> tuple[Case, ...]:
    """Return cases of reasoning with calls."""
    now = write("", [("now", {})])
    opened = "<|im_start|>assistant\n<think>"
    return (
        Case("reasoning and a call", f"I look.</think>It is{now}",
             Outcome("I look.", "It is", (Call("now", {}),)), prompt=opened),
        Case("reasoning that a call ends", f"I look.{now}",
             Outcome("I look.\n\n", None, (Call("now", {}),)), prompt=opened),
        Case("the end of reasoning once more", "</think>Done.", Outcome(None, "Done."), tools=(),
             prompt="<|im_start|>assistant\n</think>"),
    )  # fmt: skip


# How the models write the bars, too: lsdefine/GenericAgent#804, cline/cline#13348,
# openclaw/openclaw#128858, AgentFlocks/flocks#687.
BARS = ("‖", "｜｜", "|", "||")
WROTE: tuple[Invocation, ...] = (
    ("write", {"path": "a", "text": "x\n</parameter>"}),
    ("query", {"filter": {"a": [1, {"b": "c"}]}, "limit": 3}),
    ("now", {}),
)


def bar_cases(block: str, tag: str) -> Iterator[Case]:
    """Yield calls with other bars, and calls whose values have the tags of another form."""
    written = writer(block, tag)
    calls = tuple(Call(*call) for call in WROTE)
    for bar in BARS:
        other = tag.replace("｜", bar)
        write = writer(block, other)
        yield Case(
            f"calls with {bar}",
            f"{write('So.', WROTE)}\nDone.",
            Outcome(None, "So.\n\n\nDone.", calls),
            vllm="shows the markup",
        )
        yield Case(
            f"no end of a parameter with {bar}",
            write("", [("write", {"path": "a", **TEXT})]).replace(f"</{other}parameter>", "", 1),
            Outcome(calls=(Call("write", {"path": "a", **TEXT}),)),
            vllm="shows the markup",
        )
        yield Case(
            f"a mention of {bar}",
            f'Use <{other}invoke name="now"> in <{other}{block}>.',
            Outcome(None, f'Use <{other}invoke name="now"> in <{other}{block}>.'),
        )
        for number, (outer, inner, tags) in enumerate(
            ((written, write, other), (write, written, tag))
        ):
            text = f"</{tags}parameter> {inner('', WROTE)} </{tags}invoke>"
            yield Case(f"one form in another {number} with {bar}",
                       outer("", [("write", {"path": text, "text": "x"}), ("now", {})]),
                       Outcome(calls=(Call("write", {"path": text, "text": "x"}),
                                      Call("now", {}))),
                       vllm="shows the markup" if number else "")  # fmt: skip


TAG = "｜DSML｜"
V32, V4, V41 = writer("function_calls", TAG), writer("tool_calls", TAG), writer("calls", TAG + " ")
GCML = "｜GCML｜"
GIGACHAT35 = writer("tool_calls", GCML)
TAGS = Tags(prompt_open="<think>", prompt_closed="</think>")
THINK = ("<think>", "</think>")

FAMILIES = (
    Family(
        "deepseek_v32",
        V32,
        markers=THINK,
        special=(TAG,),
        vllm="deepseek_v32",
        cases=(*cases(V32, "function_calls", TAG), *bar_cases("function_calls", TAG)),
    ),
    Family(
        "deepseek_v4",
        V4,
        markers=THINK,
        special=(TAG,),
        reasoning_parser="deepseek_v4",
        tags=TAGS,
        vllm="deepseek_v4",
        cases=(
            *cases(V4, "tool_calls", TAG),
            *bar_cases("tool_calls", TAG),
            *thinking_cases(V4),
            Case(
                "the block's name misspelt",
                V4("", [("now", {})]).replace(f"<{TAG}tool_calls>", f"<{TAG}toolcalls>"),
                Outcome(calls=(Call("now", {}),)),
            ),
        ),
    ),
    Family(
        "deepseek_v41",
        V41,
        markers=THINK,
        special=(TAG,),
        reasoning_parser="deepseek_v41",
        tags=TAGS,
        vllm="deepseek_v41",
        cases=(
            *cases(V41, "calls", TAG + " "),
            *bar_cases("calls", TAG + " "),
            *thinking_cases(V41),
        ),
    ),
    Family(
        "gigachat35",
        GIGACHAT35,
        markers=(*THINK, GCML),
        special=("<|message_sep|>",),
        reasoning_parser="gigachat35",
        tags=TAGS,
        prompt="<|im_start|>assistant\n</think>",
        cases=(
            *cases(GIGACHAT35, "tool_calls", GCML),
            *thinking_cases(GIGACHAT35)[:2],
            Case(
                "the end of the message", "Done.<|message_sep|>", Outcome(None, "Done."), tools=()
            ),
        ),
    ),
)
