"""Step 3: steptml invocations between DeepSeek-like tokens, and reasoning that the prompt opens."""

from ..format import Format, State

STEP3 = Format(
    "step3",
    {
        State.START: {"<think>": State.REASONING, "</think>": State.START},
        State.REASONING: {"</think>": State.START},
        State.CONTENT: {"<｜tool_calls_begin｜>": State.SECTION},
        State.SECTION: {
            "<｜tool_call_begin｜>": State.MARKUP,
            "<｜tool_sep｜>": State.SECTION,
            '<steptml:invoke name="': State.NAME,
            "<｜tool_call_end｜>": State.SECTION,
            "<｜tool_calls_end｜>": State.BACK,
        },
        # What kind of call follows: always "function", and sometimes left out.
        State.MARKUP: {"<｜tool_sep｜>": State.SECTION, '<steptml:invoke name="': State.NAME},
        State.NAME: {'">': State.PARAMETERS},
        State.PARAMETERS: {
            '<steptml:parameter name="': State.KEY,
            "</steptml:invoke>": State.SECTION,
            "<｜tool_call_end｜>": State.SECTION,
            "<｜tool_calls_end｜>": State.BACK,
        },
        State.KEY: {'">': State.VALUE},
        State.VALUE: {"</steptml:parameter>": State.PARAMETERS},
    },
    frame="",
    source="stepfun-ai/step3 chat template; vllm 0.31 tool_parsers/step3_tool_parser.py; "
    "sglang function_call/step3_detector.py",
)
