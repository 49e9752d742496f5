"""Harmony, the channels of gpt-oss: reasoning, text and calls are messages with a header."""

from __future__ import annotations

import json
from collections.abc import Sequence

from benchmarks.samples.sample import HARMONY_SPECIAL, Call, Outcome
from tests.parsers.families.family import Case, Family, Invocation, Tags, function

TURN = "<|start|>assistant"
ANALYSIS, PREAMBLE, FINAL = (
    f"<|channel|>{channel}<|message|>" for channel in ("analysis", "commentary", "final")
)


def call(name: str, arguments: str, end: str = "<|call|>") -> str:
    """Return a message that calls `name`."""
    return f"<|channel|>commentary to=functions.{name} <|constrain|>json<|message|>{arguments}{end}"


def write(content: str, calls: Sequence[Invocation]) -> str:
    """Write as the chat template of gpt-oss does: text in front of calls is a preamble."""
    if not calls:
        return FINAL + content
    messages = [f"{PREAMBLE}{content}<|end|>"] if content else []
    messages += [call(name, json.dumps(arguments, ensure_ascii=False)) for name, arguments in calls]
    return TURN.join(messages)


HI = Call("write", {"path": "a", "text": "hi"})
HI_JSON = '{"path": "a", "text": "hi"}'
NOW = Call("now", {})

FAMILY = Family(
    "openai",
    write,
    special=HARMONY_SPECIAL,
    reasoning_parser="openai_gptoss",
    tags=Tags(ANALYSIS, f"<|end|>{TURN}{FINAL}", prompt_open=None, prompt_closed=None),
    think=lambda text: f"{ANALYSIS}{text}<|end|>{TURN}",
    # vLLM's tool parser is a stub; its HarmonyParser wants token ids of gpt-oss's own vocabulary.
    vllm=None,
    cases=(
        Case("the recipient in front of the channel",
             f" to=functions.write<|channel|>commentary json<|message|>{HI_JSON}<|call|>",
             Outcome(calls=(HI,))),
        Case("the recipient in front, constrained",
             f" to=functions.write<|channel|>commentary <|constrain|>json<|message|>{HI_JSON}"
             f"<|call|>",
             Outcome(calls=(HI,))),
        Case("a constraint without a space",
             f"<|channel|>commentary to=functions.write<|constrain|>json<|message|>{HI_JSON}"
             f"<|call|>",
             Outcome(calls=(HI,))),
        Case("no content type",
             f"<|channel|>commentary to=functions.write<|message|>{HI_JSON}<|call|>",
             Outcome(calls=(HI,))),
        Case("no <|message|> in front of the arguments",
             f"<|channel|>commentary to=functions.write <|constrain|>json{HI_JSON}<|call|>",
             Outcome(calls=(HI,))),
        Case("no namespace", f"<|channel|>commentary to=write json<|message|>{HI_JSON}<|call|>",
             Outcome(calls=(HI,))),
        Case("a call in analysis",
             f"<|channel|>analysis to=functions.write json<|message|>{HI_JSON}<|call|>",
             Outcome(calls=(HI,))),
        Case("reasoning and a call", f"{ANALYSIS}I write.<|end|>{TURN}{call('write', HI_JSON)}",
             Outcome("I write.", None, (HI,))),
        Case("reasoning, a preamble and two calls",
             f"{ANALYSIS}One.<|end|>{TURN}{PREAMBLE}Two.<|end|>{TURN}"
             f"{call('write', HI_JSON, '<|end|>')}{TURN}{call('now', '{}')}",
             Outcome("One.", "Two.", (HI, NOW))),
        Case("a call ended by end", call("write", HI_JSON, "<|end|>"), Outcome(calls=(HI,))),
        Case("a call that nothing ends", call("write", HI_JSON, ""), Outcome(calls=(HI,))),
        Case("a call without text", call("now", ""), Outcome(calls=(NOW,))),
        Case("a call without a message", "<|channel|>commentary to=functions.now<|call|>",
             Outcome(calls=(NOW,))),
        Case("text ended by return", f"{FINAL}Yes.<|return|>", Outcome(None, "Yes.")),
        Case("reasoning after a call",
             f"{call('now', '{}')}{TURN}{ANALYSIS}So.<|end|>{TURN}{FINAL}Done.",
             Outcome("So.", "Done.", (NOW,))),
        Case("two messages of reasoning",
             f"{ANALYSIS}One.<|end|>{TURN}{ANALYSIS} Two.<|end|>{TURN}{FINAL}Three.",
             Outcome("One.\n Two.", "Three.")),
        Case("a preamble and the answer", f"{PREAMBLE}One.<|end|>{TURN}{FINAL}Two.",
             Outcome(None, "One.\nTwo.")),
        Case("an empty message between two",
             f"{ANALYSIS}One.<|end|>{TURN}{ANALYSIS}<|end|>{TURN}{ANALYSIS}Two.<|end|>{TURN}"
             f"{FINAL}<|end|>{TURN}{FINAL}Three.",
             Outcome("One.\nTwo.", "Three.")),
        Case("messages with a call between them",
             f"{ANALYSIS}One.<|end|>{TURN}{call('now', '{}')}{TURN}{ANALYSIS}Two.<|end|>",
             Outcome("One.Two.", None, (NOW,))),
        Case("a message that begins with a fence", f"{FINAL}One.<|end|>{TURN}{FINAL}```\nx\n```",
             Outcome(None, "One.\n```\nx\n```")),
        Case("a message that only the next one ends", f"{ANALYSIS}One.{TURN}{FINAL}Two.",
             Outcome("One.", "Two.")),
        Case("a channel without a turn", f"{ANALYSIS}One.<|end|>{FINAL}Two.",
             Outcome("One.", "Two.")),
        Case("no header", "Just text.", Outcome(None, "Just text.")),
        Case("no header, to= in the text", "Go to=functions.now now.",
             Outcome(None, "Go to=functions.now now.")),
        Case("to= first, but no recipient", "to=get her, we go.",
             Outcome(None, "to=get her, we go.")),
        Case("a channel's text without <|message|>", "<|channel|>final Hello there.<|return|>",
             Outcome(None, "Hello there.")),
        Case("without <|message|>, and nothing ends it", "<|channel|>final Hello there.",
             Outcome(None, "Hello there.")),
        Case("reasoning without <|message|>",
             f"<|channel|>analysis One or two.<|end|>{TURN}<|channel|>final Hello there.<|return|>",
             Outcome("One or two.", "Hello there.")),
        Case("a long text without <|message|>",
             f"<|channel|>final {'Hello there. ' * 99}<|return|>",
             Outcome(None, "Hello there. " * 99)),
        Case("a tool of the server's own without <|message|>",
             f"<|channel|>commentary to=python print(1)<|call|>{TURN}{FINAL}Done.",
             Outcome(None, "Done.")),
        Case("no channel", "<|message|>Text.", Outcome(None, "Text.")),
        Case("no channel behind the turn", f"{ANALYSIS}One.<|end|>{TURN}<|message|>Text.",
             Outcome("One.", "Text.")),
        Case("a channel that is not known", "<|channel|>comment<|message|>Text.",
             Outcome(None, "Text.")),
        Case("a structured answer", '<|channel|>final <|constrain|>json<|message|>{"a": 1}',
             Outcome(None, '{"a": 1}')),
        Case("a structured answer without <|message|>",
             '<|channel|>final <|constrain|>json{"a": 1}<|return|>',
             Outcome(None, '{"a": 1}')),
        Case("a tool of the server's own",
             f"<|channel|>commentary to=python code<|message|>print(1)<|call|>{TURN}{FINAL}Done.",
             Outcome(None, "Done.")),
        Case("a message to the assistant itself",
             f"<|channel|>commentary to=assistant<|message|>Note.<|end|>{TURN}{FINAL}Done.",
             Outcome(None, "Done.")),
        Case("an answer to the assistant itself",
             "<|channel|>commentary to=assistant<|channel|>final<|message|>The answer",
             Outcome(None, "The answer")),
        Case("an answer with the assistant as recipient",
             "<|channel|>final to=assistant<|message|>The answer", Outcome(None, "The answer")),
        Case("a call that is no JSON", f"{PREAMBLE}I write.<|end|>{TURN}{call('write', 'hello')}"
             f"{TURN}{FINAL}Done.", Outcome(None, "I write.\nhello\nDone.")),
        Case("a call without <|message|> and without its brace",
             f"<|channel|>commentary to=functions.write json{HI_JSON[1:]}<|call|>",
             Outcome(None, HI_JSON[1:])),
        Case("a tool of the server's own, in reasoning",
             f"<|channel|>analysis to=browser.open code<|message|>x<|call|>{TURN}{FINAL}Done.",
             Outcome("x", "Done.")),
        Case("a function named like a tool of the server's", call("python", "{}"),
             Outcome(calls=(Call("python", {}),)), tools=(function("python"),)),
        Case("a declared tool of the server's own without a namespace",
             '<|channel|>commentary to=container.exec code<|message|>{"cmd": "ls"}<|call|>',
             Outcome(calls=(Call("container.exec", {"cmd": "ls"}),)),
             tools=(function("container.exec", cmd="string"),)),
        Case("nothing between a channel and its text",
             f"<|channel|>analysisOne or two.<|end|>{TURN}<|channel|>finalHello there.<|return|>",
             Outcome("One or two.", "Hello there.")),
        Case("a recipient that begins like one of the engine's", call("python_run", "{}"),
             Outcome(calls=(Call("python_run", {}),)), tools=(function("python_run"),)),
        Case("markers in a string", call("write", '{"path": "a", "text": "<|end|>hi<|call|>"}'),
             Outcome(calls=(Call("write", {"path": "a", "text": "<|end|>hi<|call|>"}),))),
        Case("a string where a number is declared", call("add", '{"a": "3"}'),
             Outcome(calls=(Call("add", {"a": 3}),))),
        Case("a brace missing", call("write", '{"path": "a", "text": "hi"'), Outcome(calls=(HI,))),
        Case("text behind the arguments", call("write", f"{HI_JSON} and so on"),
             Outcome(calls=(Call("write", f"{HI_JSON}and so on"),)), unfinished=True),
        Case("cut in the arguments", call("write", '{"path": "a', ""),
             Outcome(calls=(Call("write", '{"path": "a'),)), finish="length"),
        Case("cut in a header", f"{ANALYSIS}One.<|end|>{TURN}<|channel|>comm", Outcome("One."),
             finish="length"),
        Case("cut in the second call's header",
             f"{call('write', HI_JSON)}{TURN}<|channel|>commentary to=functions.no",
             Outcome(calls=(HI,)), finish="length"),
        Case("cut in the recipient", " to=functions.wri", Outcome(), finish="length"),
    ),
)  # fmt: skip
