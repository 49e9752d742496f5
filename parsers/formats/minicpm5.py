"""MiniCPM 5: `<function name="f"><param name="p">value</param></function>`, also with CDATA."""

from ..format import Format, Jump, Spelling, State

MINICPM5 = Format(
    "minicpm5",
    {
        # The first half of each tag is one token; the text after it is a marker of its own.
        State.CONTENT: {"<function": State.TOOL_SECTION},
        State.TOOL_SECTION: {'name="': State.NAME, "name='": State.NAME},
        State.NAME: {'">': State.PARAMETERS, "'>": State.PARAMETERS},
        State.PARAMETERS: {
            "<param": State.PARAMETERS,
            "</param>": State.PARAMETERS,
            'name="': State.KEY,
            "name='": State.KEY,
            "</function>": Jump.RETURN,
        },
        State.KEY: {
            '">': State.VALUE,
            "'>": State.VALUE,
            '"><![CDATA[': State.STRING,
            "'><![CDATA[": State.STRING,
            # The end of a tag is missing.
            "</param>": State.PARAMETERS,
        },
        State.VALUE: {"</param>": State.PARAMETERS},
        # Code has `]]>` as well; it is an end only in front of the parameter's.
        State.STRING: dict.fromkeys(("]]></param>", "]]>\n</param>"), State.PARAMETERS),
    },
    strip="",
    undeclared_type="json",
    breaks_before_calls=1,
    source="vllm 0.31 tool_parsers/minicpm5xml_tool_parser.py; "
    "sglang function_call/minicpm5_detector.py",
    spelling=Spelling(
        '<function name="{name}">{arguments}</function>',
        between="\n",
        parameters={
            State.VALUE: '<param name="{key}">{value}</param>',
            State.STRING: '<param name="{key}"><![CDATA[{value}]]></param>',
        },
    ),
)
