"""Step 3: steptml invocations between DeepSeek-like tokens; the prompt opens the reasoning."""

from ..format import Format, Jump, State
from .fragments import invocation, invoke, think

_INVOKE = invoke("steptml:")
_CALL_END, _CALLS_END = "<｜tool_call_end｜>", "<｜tool_calls_end｜>"
_SEPARATOR = "<｜tool_sep｜>"

STEP3 = Format(
    "step3",
    {
        **think(extra_end=True),
        State.CONTENT: {"<｜tool_calls_begin｜>": State.TOOL_SECTION},
        State.TOOL_SECTION: {
            "<｜tool_call_begin｜>": State.IGNORED,
            _SEPARATOR: State.TOOL_SECTION,
            **_INVOKE,
            _CALL_END: State.TOOL_SECTION,
            _CALLS_END: Jump.RETURN,
        },
        # The call's type, always "function" and sometimes left out.
        State.IGNORED: {_SEPARATOR: State.TOOL_SECTION, **_INVOKE},
        **invocation("steptml:", then={_CALL_END: State.TOOL_SECTION, _CALLS_END: Jump.RETURN}),
    },
    strip="",
    source="stepfun-ai/step3 chat template; vllm 0.31 tool_parsers/step3_tool_parser.py; "
    "sglang function_call/step3_detector.py",
)
