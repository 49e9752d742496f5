"""Reasoning, calls and the request together: the rules as tables, and the pairs of parsers."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from backedge.parsers.base import ParserRequest

from benchmarks.samples.sample import HARMONY_SPECIAL, Call, Outcome
from benchmarks.samples.tokenizers import bpe
from tests.parsers.families import gemma, glm45, hermes, openai, qwen3
from tests.parsers.families.family import function

TOOLS = (function("f", a="string", b="integer"), function("g", a="string"))
NAMED = {"type": "function", "function": {"name": "f"}}


@dataclass(frozen=True)
class Think:
    """Reasoning. opened: by the prompt. ended: the model ends it."""

    text: str
    opened: bool = False
    ended: bool = True


@dataclass(frozen=True)
class Text:
    """Text for the client. begun: the prompt has written what comes before it."""

    text: str
    begun: bool = False


@dataclass(frozen=True)
class Invoke:
    """A call, and the white space around it."""

    arguments: Mapping[str, Any]
    name: str = "f"
    before: str = ""
    behind: str = ""


Part = Think | Text | Invoke


def in_tags(start: str, end: str, call: Callable[..., str], parts: tuple[Part, ...]) -> str:
    """Return `parts` with reasoning between `start` and `end`."""
    output = ""
    for part in parts:
        match part:
            case Think():
                output += ("" if part.opened else start) + part.text + (end if part.ended else "")
            case Text():
                output += part.text
            case Invoke():
                output += part.before + call("", [(part.name, part.arguments)]) + part.behind
    return output


def in_channels(parts: tuple[Part, ...]) -> str:
    """Return `parts` as Harmony's messages."""
    messages = []
    for part in parts:
        match part:
            case Think():
                messages.append(("" if part.opened else openai.ANALYSIS) + part.text)
            case Text():
                messages.append(("" if part.begun else openai.FINAL) + part.text)
            case Invoke():
                arguments = json.dumps(part.arguments, ensure_ascii=False)
                messages.append(openai.call(part.name, arguments, end=""))
    return f"<|end|>{openai.TURN}".join(messages)


@dataclass(frozen=True)
class Pair:
    """Two parsers and how their model writes.

    write: parts to text. turn: what an assistant's turn begins with, and how it ends.
    opened, closed: what a prompt ends with that has opened reasoning, or switched it off.
    trap: text that looks like markers; in an argument it is nothing but text.
    special: whether the model's markers are special tokens.
    """

    tools: str
    reasoning: str
    write: Callable[[tuple[Part, ...]], str]
    markers: tuple[str, ...]
    opened: str
    closed: str
    trap: str
    special: bool = False
    turn: tuple[str, str] = ("<|im_start|>assistant\n", "<|im_end|>\n")
    user: str = "<|im_start|>user\nGo on.<|im_end|>\n"
    tool: str = "<|im_start|>user\n<tool_response>\n42\n</tool_response><|im_end|>\n"
    end: str = "<|im_end|>"

    @property
    def id(self) -> str:
        return f"{self.tools}+{self.reasoning}"

    def prompt(self, kind: str) -> str:
        """Return a prompt. kind: a word of "opened", "closed" and "tool", several, or none."""
        earlier = self.write((Think("I ask."), Invoke({"a": "y"})))
        history = self.turn[0] + earlier + self.turn[1] + self.tool if "tool" in kind else ""
        ending = self.opened if "opened" in kind else self.closed if "closed" in kind else ""
        return self.user + history + self.turn[0] + ending

    def tokenizer(self, *, special: bool) -> Any:
        """Return a tokenizer with this pair's markers. special: make them special tokens."""
        return bpe((), self.markers) if special or self.special else bpe(self.markers)


def think_tags(call: Callable[..., str]) -> Callable[[tuple[Part, ...]], str]:
    """Return a writer of <think> and calls."""
    return lambda parts: in_tags("<think>", "</think>", call, parts)


THINK = ("<think>", "</think>")
TOOL_CALL = ("<tool_call>", "</tool_call>", *THINK)
REASONING_OPENED, CLOSED = "<think>\n", "<think>\n\n</think>\n\n"
ARG = tuple(f"<{slash}arg_{kind}>" for kind in ("key", "value") for slash in ("", "/"))
PAIRS = (
    Pair(
        "hermes",
        "qwen3",
        think_tags(hermes.write),
        TOOL_CALL,
        REASONING_OPENED,
        CLOSED,
        "</tool_call></think><tool_call>{}",
    ),
    Pair(
        "hermes",
        "deepseek_r1",
        think_tags(hermes.write),
        TOOL_CALL,
        REASONING_OPENED,
        CLOSED,
        "</tool_call><think>",
    ),
    Pair(
        "qwen3_coder",
        "qwen3",
        think_tags(qwen3.write),
        TOOL_CALL,
        REASONING_OPENED,
        CLOSED,
        "</tool_call></function></think><tool_call><function=g>",
    ),
    Pair(
        "glm45",
        "glm45",
        think_tags(glm45.write),
        (*TOOL_CALL, *ARG),
        "<think>",
        "<think></think>",
        "</tool_call></think><tool_call>g",
    ),
    Pair(
        "gemma4",
        "gemma4",
        lambda parts: in_tags(gemma.CHANNEL, gemma.CHANNEL_END, gemma.gemma4, parts),
        ("<|channel>", gemma.CHANNEL_END, "<|tool_call>", "<tool_call|>", gemma.MARK),
        gemma.CHANNEL,
        gemma.CHANNEL + gemma.CHANNEL_END,
        "<tool_call|><channel|><|tool_call>call:g{}",
        special=True,
    ),
    Pair(
        "openai",
        "openai_gptoss",
        in_channels,
        HARMONY_SPECIAL,
        openai.ANALYSIS,
        openai.FINAL,
        "<|end|><|start|>assistant<|channel|>final<|message|>",
        special=True,
        turn=("<|start|>assistant", "<|call|>"),
        user="<|start|>user<|message|>Go on.<|end|>",
        tool="<|start|>functions.f to=assistant<|channel|>commentary<|message|>42<|end|>",
        end="<|return|>",
    ),
)
HERMES, R1, CODER, GLM, GEMMA, HARMONY = PAIRS
TAGGED = (HERMES, R1, CODER, GLM, GEMMA)


@dataclass(frozen=True)
class Rule:
    """One case for several pairs.

    parts: what the model writes; a tuple, or what makes one for a pair. prompt: see `Pair.prompt`.
    request: fields of the ParserRequest. finish: the engine's reason.
    by_token: what differs where the markers are tokens. as_special: also for markers that are
        special tokens.
    """

    id: str
    parts: tuple[Part, ...] | Callable[[Pair], tuple[Part, ...]]
    expected: Outcome | Callable[[Pair], Outcome]
    pairs: tuple[Pair, ...] = PAIRS
    prompt: str = ""
    request: Mapping[str, Any] = field(default_factory=dict)
    finish: str = "stop"
    by_token: Outcome | None = None
    as_special: bool = True

    def output(self, pair: Pair) -> str:
        """Return what the model writes."""
        return pair.write(self.parts(pair) if callable(self.parts) else self.parts)

    def outcome(self, pair: Pair, *, token: bool = False) -> Outcome:
        """Return what the client gets."""
        if token and self.by_token is not None:
            return self.by_token
        return self.expected(pair) if callable(self.expected) else self.expected

    def parser_request(self) -> ParserRequest:
        """Return the request."""
        return ParserRequest(**{"tools": list(TOOLS), "tool_choice": "auto"} | dict(self.request))


X, Y = Call("f", {"a": "x"}), Call("f", {"a": "y", "b": 2})
CALL_X, CALL_Y = Invoke(X.arguments), Invoke(Y.arguments)
ARRAY = '[{"name": "f", "parameters": {"a": "x"}}, {"name": "f", "parameters": {"a": "y", "b": 2}}]'
REQUIRED = {"tool_choice": "required", "json_calls": True}
NONE = {"tool_choice": "none"}


def trapped(pair: Pair) -> tuple[Part, ...]:
    """Return a call with text like markers in an argument."""
    return (Think("One."), Invoke({"a": pair.trap}), Text("Two."))


def untouched(*parts: Part) -> Callable[[Pair], Outcome]:
    """Return what is left of `parts` if calls are text."""
    return lambda pair: Outcome("One.", pair.write(parts))


RULES = (
    # What the prompt says.
    Rule("nothing said", (Think("One."), Text("Two.")), Outcome("One.", "Two.")),
    Rule(
        "opened",
        (Think("One.", opened=True), Text("Two.")),
        Outcome("One.", "Two."),
        prompt="opened",
    ),
    Rule(
        "opened, never ended",
        (Think("One.", opened=True, ended=False),),
        Outcome("One."),
        prompt="opened",
    ),
    Rule(
        "opened, and a call",
        (Think("One.", opened=True), CALL_X),
        Outcome("One.", None, (X,)),
        prompt="opened",
    ),
    Rule(
        "opened again by the model",
        (Think("One."), Text("Two.")),
        Outcome("One.", "Two."),
        TAGGED,
        prompt="opened",
    ),
    Rule("closed", (Text("Two.", begun=True),), Outcome(None, "Two."), prompt="closed"),
    Rule(
        "closed, and a call",
        (Text("Two.", begun=True), CALL_X),
        Outcome(None, "Two.", (X,)),
        prompt="closed",
    ),
    Rule("closed, and a call at once", (CALL_X,), Outcome(calls=(X,)), TAGGED, prompt="closed"),
    # Behind a tool's result the earlier turn says nothing.
    Rule("after a tool", (Think("One."), Text("Two.")), Outcome("One.", "Two."), prompt="tool"),
    Rule(
        "after a tool, opened",
        (Think("One.", opened=True), Text("Two.")),
        Outcome("One.", "Two."),
        prompt="tool opened",
    ),
    Rule(
        "after a tool, closed",
        (Text("Two.", begun=True),),
        Outcome(None, "Two."),
        prompt="tool closed",
    ),
    Rule(
        "after a tool, the next call",
        (Think("One."), CALL_X),
        Outcome("One.", None, (X,)),
        prompt="tool",
    ),
    # Where calls may stand.
    Rule("a call at once behind reasoning", (Think("One."), CALL_X), Outcome("One.", None, (X,))),
    Rule(
        "two calls at once behind reasoning",
        (Think("One."), CALL_X, CALL_Y),
        Outcome("One.", None, (X, Y)),
    ),
    Rule(
        "reasoning, text, two calls and text",
        (Think("One."), Text("Two."), CALL_X, CALL_Y, Text("Three.")),
        Outcome("One.", "Two.Three.", (X, Y)),
    ),
    Rule(
        "a call in reasoning that nothing ends",
        (Think("One.", ended=False), CALL_X),
        Outcome("One.", None, (X,)),
    ),
    Rule(
        "two calls in reasoning",
        (Think("One.", ended=False), CALL_X, CALL_Y),
        Outcome("One.", None, (X, Y)),
    ),
    Rule(
        "a call, then reasoning",
        (CALL_X, Think("One."), Text("Two.")),
        Outcome("One.", "Two.", (X,)),
        (HARMONY,),
    ),
    Rule(
        "a call in reasoning that the prompt opened",
        (Think("One.", opened=True, ended=False), CALL_X),
        Outcome("One.", None, (X,)),
        prompt="opened",
    ),
    Rule("a call behind an empty thought", (Think(""), CALL_X), Outcome(calls=(X,))),
    # White space around calls is nobody's.
    Rule(
        "white space around calls",
        (
            Think("One."),
            Invoke(X.arguments, before="\n\n", behind="\n"),
            Invoke(Y.arguments, before="\n", behind="\n\n"),
        ),
        Outcome("One.", None, (X, Y)),
        TAGGED,
    ),
    Rule(
        "white space between text and calls",
        (Text("Two."), Invoke(X.arguments, before="\n\n")),
        Outcome(None, "Two.", (X,)),
        TAGGED,
        "closed",
    ),
    Rule(
        "white space behind the last call",
        (Text("Two."), Invoke(X.arguments, before=" ", behind="\n\n")),
        Outcome(None, "Two.", (X,)),
        TAGGED,
        "closed",
    ),
    # Forbidden calls are left out; without tools, calls are text, to the letter.
    Rule(
        "tool_choice none",
        (Think("One."), Text("Two.\n"), CALL_X),
        Outcome("One.", "Two."),
        (HERMES, R1, CODER, GLM),
        request=NONE,
    ),
    Rule(
        "no tools",
        (Think("One."), CALL_X, CALL_Y),
        untouched(CALL_X, CALL_Y),
        (HERMES, R1, CODER, GLM),
        request={"tools": []},
        as_special=False,
    ),
    Rule(
        "tool_choice none, calls in reasoning",
        (Think("One.", ended=False), CALL_X, Text("")),
        Outcome("One."),
        (HERMES, R1, CODER, GLM),
        request=NONE,
    ),
    Rule(
        "tool_choice none in channels",
        (Think("One."), CALL_X),
        Outcome("One."),
        (HARMONY,),
        request=NONE,
    ),
    # Forced calls are JSON, whatever the model's syntax is.
    Rule("required", (Think("One."), Text(ARRAY)), Outcome("One.", None, (X, Y)), request=REQUIRED),
    Rule(
        "required, opened",
        (Think("One.", opened=True), Text(ARRAY)),
        Outcome("One.", None, (X, Y)),
        prompt="opened",
        request=REQUIRED,
    ),
    Rule(
        "required, closed",
        (Text(ARRAY, begun=True),),
        Outcome(calls=(X, Y)),
        prompt="closed",
        request=REQUIRED,
    ),
    Rule(
        "required, white space in front",
        (Think("One."), Text(f"\n\n{ARRAY}\n")),
        Outcome("One.", None, (X, Y)),
        request=REQUIRED,
    ),
    Rule(
        "required, markers in a string",
        (Think("One."), Text('[{"name": "f", "parameters": {"a": "<tool_call></think>"}}]')),
        Outcome("One.", None, (Call("f", {"a": "<tool_call></think>"}),)),
        request=REQUIRED,
        as_special=False,
    ),
    Rule(
        "named",
        (Think("One."), Text('{"a": "x"}')),
        Outcome("One.", None, (X,)),
        request=REQUIRED | {"tool_choice": NAMED},
    ),
    Rule(
        "named, in the model's syntax",
        (Think("One."), CALL_X),
        Outcome("One.", None, (X,)),
        request={"tool_choice": NAMED},
    ),
    Rule(
        "required, in the model's syntax",
        (Think("One."), CALL_X, CALL_Y),
        Outcome("One.", None, (X, Y)),
        request={"tool_choice": "required"},
    ),
    # What only looks like a marker.
    Rule(
        "markers in an argument",
        trapped,
        lambda pair: Outcome("One.", "Two.", (Call("f", {"a": pair.trap}),)),
    ),
    Rule(
        "half a marker at the end of text",
        (Text("Two. <", begun=True),),
        Outcome(None, "Two. <"),
        prompt="closed",
    ),
    Rule(
        "half a marker in reasoning",
        (Think("One </thin <tool"), Text("Two.")),
        Outcome("One </thin <tool", "Two."),
    ),
    Rule(
        "a marker that begins no call",
        (Think("One."), Text("Use <tool_call> or not.")),
        Outcome("One.", "Use <tool_call> or not."),
        (HERMES, R1),
    ),
    Rule(
        "in a code block",
        (Think("One."), Text("So:\n```\n"), CALL_X, Text("\n```")),
        lambda pair: Outcome("One.", f"So:\n```\n{pair.write((CALL_X,))}\n```"),
        (HERMES, R1, CODER, GLM),
        by_token=Outcome("One.", "So:\n```\n```", (X,)),
    ),
    Rule(
        "a code block in reasoning",
        (Think("```\na </b>\n```"), CALL_X),
        Outcome("```\na </b>\n```", None, (X,)),
    ),
    # Where generation was cut.
    Rule("cut in reasoning", (Think("One", ended=False),), Outcome("One"), finish="length"),
    Rule(
        "cut behind reasoning", (Think("One."), Text("Tw")), Outcome("One.", "Tw"), finish="length"
    ),
)
