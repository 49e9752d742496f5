"""PLaMo 3: sections of requests with a name and JSON; each marker is several tokens."""

from ..format import Format, Jump, Spelling, State, Target
from .fragments import think


def _mark(side: str, part: str) -> str:
    return f"<|plamo:{side}_{part}:plamo|>"


_REQUEST, _REQUEST_END = _mark("begin", "tool_request"), _mark("end", "tool_request")
_NAME = _mark("begin", "tool_name")
_ENDS: dict[str, Target] = {
    _REQUEST_END: State.TOOL_SECTION,
    _mark("end", "tool_requests"): Jump.RETURN,
}
_NEXT = {_REQUEST: State.TOOL_SECTION, _NAME: State.NAME}

PLAMO3 = Format(
    "plamo3",
    {
        **think(_mark("begin", "think"), _mark("end", "think"), extra_end=True),
        State.CONTENT: {
            _mark("begin", "tool_requests"): State.TOOL_SECTION,
            _REQUEST: State.TOOL_SECTION,
            "<|plamo:tag|>": State.CONTENT,  # ends the turn
        },
        State.TOOL_SECTION: {**_NEXT, **_ENDS},
        State.NAME: {_mark("end", "tool_name"): State.IGNORED},
        # The marker of the arguments, and their type, always "json".
        State.IGNORED: {"<|plamo:msg|>": State.ARGUMENTS, **_ENDS},
        State.ARGUMENTS: {_mark("end", "tool_arguments"): State.PARAMETERS, **_NEXT, **_ENDS},
        State.PARAMETERS: {**_NEXT, **_ENDS},
    },
    thinks_by_default=True,
    thinking_flags={"enable_thinking": True},
    source="vllm 0.33 parser/plamo3.py",
    spelling=Spelling(
        f"{_REQUEST}{_NAME}{{name}}{_mark('end', 'tool_name')}{_mark('begin', 'tool_arguments')}"
        "<|plamo:constrain|>json<|plamo:msg|>{arguments}"
        f"{_mark('end', 'tool_arguments')}{_REQUEST_END}",
        around=(_mark("begin", "tool_requests"), _mark("end", "tool_requests")),
    ),
)
