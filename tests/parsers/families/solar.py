"""Solar Open 100B: a token for each kind of message. Solar Open 2: parameters between tokens."""

from __future__ import annotations

import json
from collections.abc import Sequence

from benchmarks.samples.sample import Call, Outcome
from tests.parsers.families.family import Case, Family, Invocation, Tags
from tests.parsers.families.glm45 import read_text

BEGIN, END = "<|begin|>", "<|end|>"
TURN = f"{BEGIN}assistant"
TEXT, THINK, CALLS = "<|content|>", "<|think|>", "<|tool_calls|>"
NOW_CALL = "<|tool_call:begin|>a1b2c3d4e5<|tool_call:name|>now<|tool_call:args|>{}<|tool_call:end|>"
NOW = Call("now", {})


def write(content: str, calls: Sequence[Invocation]) -> str:
    """Write as the chat template of Solar Open 100B does, behind a prompt that ends with TURN."""
    written = [
        f"<|tool_call:begin|>call{number:06}<|tool_call:name|>{name}<|tool_call:args|>"
        f"{json.dumps(arguments, ensure_ascii=False)}<|tool_call:end|>"
        for number, (name, arguments) in enumerate(calls)
    ]
    messages = [f"{TEXT}{content}{END}"] if content else []
    messages += [CALLS + "".join(written) + "<|calls|>"] if written else []
    return TURN.join(messages)


SOLAR_OPEN = Family(
    "solar_open",
    write,
    special=(BEGIN, END, TEXT, THINK, CALLS, "<|calls|>",
             *(f"<|tool_call:{part}|>" for part in ("begin", "name", "args", "end"))),
    reasoning_parser="solar_open",
    tags=Tags(THINK, f"{END}{TURN}{TEXT}", prompt_open=f"{TURN}{THINK}",
              prompt_closed=f"{TURN}{THINK}{END}{TURN}{TEXT}"),
    think=lambda text: f"{THINK}{text}{END}{TURN}",
    cases=(
        Case("a call behind reasoning", f"{THINK}So.{END}{TURN}{CALLS}{NOW_CALL}<|calls|>",
             Outcome("So.", None, (NOW,))),
        Case("low effort", f"{TEXT}Yes.{END}", Outcome(None, "Yes."),
             prompt=f"{TURN}{THINK}{END}{TURN}"),
        Case("no end of the calls", f"{CALLS}{NOW_CALL}", Outcome(calls=(NOW,))),
        Case("text between calls",
             f"{CALLS}{NOW_CALL}<|calls|>{TURN}{TEXT}And.{END}{TURN}{CALLS}{NOW_CALL}<|calls|>",
             Outcome(None, "And.", (NOW, NOW))),
        Case("no markers at all", "Yes, of course.", Outcome(None, "Yes, of course.")),
        Case("cut in the id", f"{TEXT}Hi{END}{TURN}{CALLS}<|tool_call:begin|>a1b",
             Outcome(None, "Hi"), finish="length"),
        Case("cut in the arguments",
             CALLS + NOW_CALL.replace("now", "write").partition("{")[0] + '{"path": "a',
             Outcome(calls=(Call("write", '{"path": "a'),)), finish="length"),
    ),
)  # fmt: skip


def write_tagged(content: str, calls: Sequence[Invocation]) -> str:
    """Write as vLLM's parser of Solar Open 2 reads."""
    written = [
        f"<|tool_call:start|>{name}\n"
        + "".join(
            f"<|tool_arg:start|>{key}<|tool_arg:value|>{read_text(value)}<|tool_arg:end|>\n"
            for key, value in arguments.items()
        )
        + "<|tool_call:end|>"
        for name, arguments in calls
    ]
    return content + "\n".join(written)


NOW_TAGGED = write_tagged("", [("now", {})])
OPENED = "<|im_start|>assistant\n<|think:start|>"

SOLAR_OPEN2 = Family(
    "solar_open2",
    write_tagged,
    special=("<|think:start|>", "<|think:end|>", "<|tool_call:start|>", "<|tool_call:end|>",
             *(f"<|tool_arg:{part}|>" for part in ("start", "value", "end"))),
    reasoning_parser="solar_open2",
    tags=Tags("<|think:start|>", "<|think:end|>", prompt_open="<|think:start|>",
              prompt_closed="<|think:start|><|think:end|>"),
    cases=(
        Case("a call ends the thought", f"I look.{NOW_TAGGED}Done.",
             Outcome("I look.", "Done.", (NOW,)), prompt=OPENED),
        Case("white space of a string is its own",
             write_tagged("", [("write", {"text": "\n  x \n"})]),
             Outcome(calls=(Call("write", {"text": "\n  x \n"}),))),
        Case("no end of a value",
             "<|tool_call:start|>add\n<|tool_arg:start|>a<|tool_arg:value|>3<|tool_call:end|>",
             Outcome(calls=(Call("add", {"a": 3}),))),
        Case("a marker that begins no call", "Use <|tool_call:start|> to call.",
             Outcome(None, "Use <|tool_call:start|> to call.")),
        Case("cut in a value",
             "<|tool_call:start|>write\n<|tool_arg:start|>text<|tool_arg:value|>ab",
             Outcome(calls=(Call("write", '{"text": "ab'),)), finish="length"),
    ),
)  # fmt: skip

FAMILIES = (SOLAR_OPEN, SOLAR_OPEN2)
