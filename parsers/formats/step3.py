"""Step 3: steptml invocations between DeepSeek-like tokens, and reasoning that the prompt opens."""

from ..format import Format, Jump, State

STEP3 = Format(
    "step3",
    {
        State.START: {"<think>": State.REASONING, "</think>": State.START},
        State.REASONING: {"</think>": State.START},
        State.CONTENT: {"<｜tool_calls_begin｜>": State.TOOL_SECTION},
        State.TOOL_SECTION: {
            "<｜tool_call_begin｜>": State.IGNORED,
            "<｜tool_sep｜>": State.TOOL_SECTION,
            '<steptml:invoke name="': State.NAME,
            "<｜tool_call_end｜>": State.TOOL_SECTION,
            "<｜tool_calls_end｜>": Jump.RETURN,
        },
        # What kind of call follows: always "function", and sometimes left out.
        State.IGNORED: {"<｜tool_sep｜>": State.TOOL_SECTION, '<steptml:invoke name="': State.NAME},
        State.NAME: {'">': State.PARAMETERS},
        State.PARAMETERS: {
            '<steptml:parameter name="': State.KEY,
            "</steptml:invoke>": State.TOOL_SECTION,
            "<｜tool_call_end｜>": State.TOOL_SECTION,
            "<｜tool_calls_end｜>": Jump.RETURN,
        },
        State.KEY: {'">': State.VALUE},
        State.VALUE: {"</steptml:parameter>": State.PARAMETERS},
    },
    strip="",
    source="stepfun-ai/step3 chat template; vllm 0.31 tool_parsers/step3_tool_parser.py; "
    "sglang function_call/step3_detector.py",
)
