"""Inkling: messages of text, reasoning and calls, each begun by the token of its kind."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.samples.sample import Call, Outcome
from tests.parsers.families.family import Case, Family, Invocation, Tags
from tests.parsers.families.json_objects import (
    ENDS_EARLY,
    KEEPS_NULL,
    LENIENT_STREAM,
    json_cases,
    to_json,
)

MESSAGE, END = "<|message_model|>", "<|end_message|>"
TEXT, THINKING, CALL = "<|content_text|>", "<|content_thinking|>", "<|content_invoke_tool_json|>"


def write(content: str, calls: Sequence[Invocation]) -> str:
    """Write as the model does behind a prompt that ends with MESSAGE."""
    messages = [f"{TEXT}{content}{END}"] if content else []
    messages += [f"{CALL}{to_json(name, arguments, 'args')}{END}" for name, arguments in calls]
    return MESSAGE.join(messages)


QUESTION = f"<|message_user|>{TEXT}Go on.{END}{MESSAGE}"
NOW = Call("now", {})

FAMILY = Family(
    "inkling",
    write,
    special=("<|message_user|>", MESSAGE, TEXT, THINKING, CALL, "<|content_invoke_tool_text|>",
             "<|content_tool_error|>", "<|content_model_end_sampling|>", END),
    reasoning_parser="inkling",
    tags=Tags(THINKING, f"{END}{MESSAGE}{TEXT}", prompt_open=f"{MESSAGE}{THINKING}",
              prompt_closed=f"{MESSAGE}{TEXT}"),
    think=lambda text: f"{THINKING}{text}{END}{MESSAGE}",
    vllm="inkling",
    cases=(
        *json_cases(lambda call: f"{CALL}{call}{END}", key="args", end=END,
                    vllm=KEEPS_NULL | ENDS_EARLY | LENIENT_STREAM),
        Case("the message's token, too", f"{MESSAGE}{THINKING}So.{END}{MESSAGE}{TEXT}Yes.{END}",
             Outcome("So.", "Yes.")),
        Case("the function's name in front of its call",
             f"now{CALL}{to_json('now', {}, 'args')}{END}", Outcome(calls=(NOW,)),
             vllm="gives the name in front of the first call as content"),
        Case("a call behind a question", f"now{CALL}{to_json('now', {}, 'args')}{END}",
             Outcome(calls=(NOW,)), prompt=QUESTION),
        Case("text behind a question", f"{TEXT}Yes.{END}", Outcome(None, "Yes."), prompt=QUESTION),
        Case("the end of sampling", f"{TEXT}Yes.<|content_model_end_sampling|>",
             Outcome(None, "Yes.")),
        Case("reasoning and a call",
             f"{THINKING}So.{END}{MESSAGE}now{CALL}{to_json('now', {}, 'args')}{END}",
             Outcome("So.", None, (NOW,))),
        Case("reasoning that has no end",
             f"{THINKING}So.{MESSAGE}now{CALL}{to_json('now', {}, 'args')}{END}",
             Outcome("So.", None, (NOW,))),
        Case("text between calls",
             f"{CALL}{to_json('now', {}, 'args')}{END}{MESSAGE}{TEXT}And.{END}{MESSAGE}{CALL}"
             f"{to_json('now', {}, 'args')}{END}",
             Outcome(None, "And.", (NOW, NOW))),
        Case("reasoning twice",
             f"{THINKING}So.{END}{MESSAGE}{TEXT}Yes.{END}{MESSAGE}{THINKING}But.{END}{MESSAGE}"
             f"{TEXT}No.{END}",
             Outcome("So.But.", "Yes.No.")),
        Case("no markers at all", "Yes, of course.", Outcome(None, "Yes, of course.")),
        Case("a call that is no JSON", "<|content_invoke_tool_text|>now()" + END,
             Outcome(None, "now()")),
        Case("no end of the message", f"{CALL}{to_json('now', {}, 'args')}", Outcome(calls=(NOW,))),
        Case("cut in the name", f'{TEXT}Hi{END}{MESSAGE}{CALL}{{"name": "wri', Outcome(None, "Hi"),
             finish="length"),
        Case("cut in the arguments", f'{CALL}{{"name": "write", "args": {{"path": "a',
             Outcome(calls=(Call("write", '{"path": "a'),)), finish="length"),
    ),
)  # fmt: skip
