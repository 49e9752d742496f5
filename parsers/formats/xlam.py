"""xLAM: an array of call objects, bare or wrapped as in the models it was trained from."""

from ..format import Format, Jump, ReuseSuffix, State
from .fragments import call_array

BARE = ReuseSuffix(State.JSON_CALLS)
_END = "</think>"
_AFTER_END = ReuseSuffix(State.JSON_CALLS, said=len(_END))

XLAM = Format(
    "xlam",
    {
        State.START: {"[": BARE},
        State.CONTENT: {
            "<tool_call>": State.JSON_CALLS,
            "[TOOL_CALLS]": State.JSON_CALLS,
            # Unlike other code blocks, one that begins with an array contains calls.
            **{f"```{word}{space}[": BARE for word in ("json", "") for space in ("\n", "\r\n")},
            "```json [": BARE,
            "```json[": BARE,
            # Without a reasoning parser calls follow the end of reasoning, which is text.
            **{f"{_END}{space}[": _AFTER_END for space in ("", " ", "\n", "\n\n", "\r\n")},
        },
        State.JSON_CALLS: {"</tool_call>": Jump.RETURN, "```": Jump.RETURN},
    },
    declared_only=True,
    source="vllm examples/tool_chat_template_xlam_llama.jinja, "
    "0.31 tool_parsers/xlam_tool_parser.py",
    spelling=call_array("", ""),
)
