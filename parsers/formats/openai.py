"""Harmony, the channels in which gpt-oss writes."""

import re

from ..format import Format, Jump, ReuseSuffix, Spelling, State, Target

# These tokens end a message of any kind.
ENDS = {
    "<|start|>": State.HEADER,
    "<|channel|>": State.HEADER,
    "<|end|>": State.START,
    "<|return|>": State.START,
    "<|call|>": State.START,
}

# A channel's name after `<|message|>`: the marker before it and the one after it are swapped.
_SWAPPED: dict[str, Target] = {
    "analysis<|channel|>": State.REASONING,
    "commentary<|channel|>": State.CONTENT,
    "final<|channel|>": State.CONTENT,
}
# The server's own tools, which are functions only if the request declares them.
_OWN_TOOL = r"(?:python|browser|container)(?![\w\-])[^\s<]*"
_NO_FUNCTION = rf"(?:assistant(?![\w\-])|{_OWN_TOOL})"
_MARKER = r"<\|(?:channel|constrain)\|>"
# A header's words; and what else it holds, which is a message whose own marker is missing, or
# damaged.
_HEAD = rf"\A(?:[^<|]|{_MARKER})*?"
_TEXT = rf"(?!{_MARKER})(?P<text>\S.*)"
# In front of a recipient; and what follows it. A message after that is no call; but a recipient
# without a channel may be an answer's first words.
BEFORE_RECIPIENT = rf"{_HEAD}(?P<first>\A(?!.*<\|channel\|>))?\bto="
AFTER_RECIPIENT = (
    r"(?:<\|channel\|>\s*+\w*+)?\s*+(?:<\|constrain\|>)?\s*+[\w/.+\-]*+"
    rf"(?(first)|\s*+(?:{_TEXT})?)"
)
# A channel's name, and what else its header holds.
_CHANNEL = (
    r"(?:\A|<\|channel\|>)\s*{}(?:\s+to=assistant(?![\w\-]))?(?:\s*<\|constrain\|>\w+)?"
    rf"(?:(?!\s+to=)\s*+{_TEXT})?"
)

OPENAI = Format(
    "openai",
    {
        # The prompt ends with `<|start|>assistant`: the recipient may come first.
        State.START: {
            **ENDS,
            **_SWAPPED,
            "to=": ReuseSuffix(State.HEADER, 3),
            "<|message|>": State.START,
        },
        State.CONTENT: ENDS,
        State.REASONING: ENDS,
        State.HEADER: {
            "<|message|>": Jump.BY_HEADER,
            # A header has no brace, so the model has omitted `<|message|>`.
            "{": ReuseSuffix(Jump.BY_HEADER),
            "<|start|>": State.HEADER,
            "<|end|>": State.START,
            "<|return|>": State.START,
            "<|call|>": State.START,
        },
        State.ARGUMENTS: ENDS,
        # Inside a header `<|constrain|>` ends the recipient; elsewhere it has no meaning.
        State.IGNORED: {**ENDS, "<|constrain|>": State.IGNORED},
    },
    aliases=("harmony", "gpt-oss", "gpt_oss", "openai_gptoss"),
    headers=(
        (re.compile(rf"{_HEAD}\bto=(?P<declared>)(?P<name>{_OWN_TOOL})"), State.ARGUMENTS),
        (
            re.compile(
                rf"{BEFORE_RECIPIENT}(?!{_NO_FUNCTION})(?:functions\.)?(?P<name>[^\s<]++)"
                rf"{AFTER_RECIPIENT}",
                re.DOTALL,
            ),
            State.ARGUMENTS,
        ),
        (re.compile(_CHANNEL.format("analysis"), re.DOTALL), State.REASONING),
        (re.compile(rf"analysis(?:(?!\s+to=)\s*+{_TEXT})?", re.DOTALL), State.REASONING),
        (re.compile(rf"{_HEAD}\bto=(?P<name>{_OWN_TOOL})"), State.IGNORED),
        # The answer, to any recipient.
        (re.compile(_CHANNEL.format("final"), re.DOTALL), State.CONTENT),
        (re.compile(rf"{_HEAD}\bto=assistant(?![\w\-])"), State.IGNORED),
        (re.compile(_CHANNEL.format("commentary"), re.DOTALL), State.CONTENT),
        (re.compile(r"\A(?:assistant)?\Z"), State.START),
        # No channel, or one that is not known: a message begins with the first mark.
        (re.compile(rf"\A(?:[^<|]|{_MARKER})*+(?:{_TEXT})?", re.DOTALL), State.CONTENT),
    ),
    separator="\n",
    source="openai/harmony docs/format.md; vllm 0.31 parser/harmony.py",
    thought=(
        "<|channel|>analysis<|message|>",
        "<|end|>",
        "<|start|>assistant",
        "<|channel|>final<|message|>",
    ),
    # The marker that ends a call ends the output.
    spelling=Spelling(
        "<|channel|>commentary to=functions.{name} <|constrain|>json<|message|>{arguments}",
        between="<|call|><|start|>assistant",
    ),
)
