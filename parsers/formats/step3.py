"""Step 3: steptml invocations between DeepSeek-like tokens; the prompt opens the reasoning."""

from ..format import Format, Jump, Spelling, State, Target
from .fragments import invocation, invoke, think

_INVOKE = invoke("steptml:")
_HEAD = dict.fromkeys(("<｜tool_call_begin｜>", "<｜tool_sep｜>"), State.IGNORED)
_ENDS: dict[str, Target] = {
    "<｜tool_call_end｜>": State.TOOL_SECTION,
    "<｜tool_calls_end｜>": Jump.RETURN,
}

STEP3 = Format(
    "step3",
    {
        **think(extra_end=True),
        State.CONTENT: {"<｜tool_calls_begin｜>": State.TOOL_SECTION},
        State.TOOL_SECTION: {**_HEAD, **_INVOKE, **_ENDS},
        # The call's type, always "function" and sometimes omitted; rarely followed by words.
        State.IGNORED: {**_HEAD, **_INVOKE, **_ENDS},
        **invocation("steptml:", then={**_ENDS, **_HEAD}),
    },
    strip="",
    breaks_before_calls=1,
    source="stepfun-ai/step3 chat template; vllm 0.31 tool_parsers/step3_tool_parser.py; "
    "sglang function_call/step3_detector.py",
    spelling=Spelling(
        '<｜tool_call_begin｜>function<｜tool_sep｜><steptml:invoke name="{name}">'
        "{arguments}</steptml:invoke><｜tool_call_end｜>",
        around=("<｜tool_calls_begin｜>", "<｜tool_calls_end｜>"),
        between="\n",
        parameters={State.VALUE: '<steptml:parameter name="{key}">{value}</steptml:parameter>'},
    ),
)
