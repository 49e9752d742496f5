"""ERNIE 4.5: tool calls, and reasoning with the answer between tags."""

from ..format import Format, Spelling, State
from .fragments import JSON_CALL, json_calls, merge_states, think

ERNIE45 = Format(
    "ernie45",
    merge_states(
        think(),
        {
            # Line breaks around the tags are also markup.
            State.START: {"<response>": State.START, "\n": State.START},
            State.CONTENT: {"</response>": State.IGNORED},
            State.IGNORED: {"<tool_call>": State.JSON_CALLS},
        },
        json_calls("<tool_call>", "</tool_call>"),
    ),
    breaks_before_calls=1,
    source="vllm 0.31 tool_parsers/ernie45_tool_parser.py, reasoning/ernie45_reasoning_parser.py",
    spelling=Spelling(f"<tool_call>\n{JSON_CALL}\n</tool_call>\n"),
)
