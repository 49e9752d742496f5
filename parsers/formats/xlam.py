"""xLAM's tool calls: an array, bare or in one of the wrappers of the models that it was trained from."""

from ..format import Format, Jump, ReuseSuffix, State

BARE = ReuseSuffix(State.JSON_CALLS)

XLAM = Format(
    "xlam",
    {
        State.START: {"[": BARE},
        State.CONTENT: {
            "<tool_call>": State.JSON_CALLS,
            "[TOOL_CALLS]": State.JSON_CALLS,
            # A code block that begins with an array is taken for calls, unlike any other.
            "```json\n[": BARE,
            "```json [": BARE,
            "```json[": BARE,
            "```\n[": BARE,
            # Reasoning that no parser was asked to read.
            "</think>[": BARE,
            "</think>\n[": BARE,
            "</think>\n\n[": BARE,
        },
        State.JSON_CALLS: {"</tool_call>": Jump.RETURN, "```": Jump.RETURN},
    },
    declared_only=True,
    source="vllm examples/tool_chat_template_xlam_llama.jinja, 0.31 tool_parsers/xlam_tool_parser.py",
)
