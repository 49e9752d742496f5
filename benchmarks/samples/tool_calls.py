"""One call in the syntax of every tool parser of vLLM.

The call is always the same: a string argument with quotes and an accent, and an integer,
after some text if the syntax allows text. A key is a parser's name, followed by a word if
the parser has several syntaxes.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from .sample import ADD_NOTE, LEAD, NOTE, NOTE_JSON, Call, Outcome, Sample

TEXT = NOTE["text"]
CALL_JSON = f'{{"name": "add_note", "arguments": {NOTE_JSON}}}'
PYTHONIC = "add_note(text='Olé, \"Ann\"!', count=3)"
# The call as Python writes it.
PYTHON_OBJECT = repr({"name": "add_note", "arguments": NOTE})
THINK = ("<think>", "</think>")
SOLAR = (
    *("<|content|>", "<|end|>", "<|begin|>", "<|tool_calls|>", "<|calls|>"),
    *("<|tool_call:begin|>", "<|tool_call:name|>", "<|tool_call:args|>", "<|tool_call:end|>"),
)
SOLAR_2 = (
    *("<|tool_call:start|>", "<|tool_call:end|>"),
    *("<|tool_arg:start|>", "<|tool_arg:value|>", "<|tool_arg:end|>"),
)
PARSER, TOOL_PARSER = "parser/{}.py", "tool_parsers/{}_tool_parser.py"


def one_call(output: str, source: str, *markers: str, **more: Any) -> Sample:
    """Return a sample whose output is the call, perhaps with LEAD before it."""
    content = LEAD if LEAD in output else None
    return Sample(
        output,
        Outcome(content=content, calls=(Call("add_note", NOTE),)),
        source,
        markers,
        tools=(ADD_NOTE,),
        **more,
    )


def glm(source: str, open_name: str = "", *, suffix: str = "") -> Sample:
    """Return a call in GLM's tags.

    open_name: the text between the name and the arguments. suffix: that after each tag.
    """
    markers = [
        f"<{slash}{tag}>"
        for tag in ("think", "tool_call", "arg_key", "arg_value")
        for slash in ("", "/")
    ]
    return one_call(
        f"{LEAD}<tool_call>add_note{open_name}"
        f"<arg_key>text</arg_key>{suffix}<arg_value>{TEXT}</arg_value>{suffix}"
        f"<arg_key>count</arg_key>{suffix}<arg_value>3</arg_value>{suffix}</tool_call>",
        source,
        *markers,
    )


def dsml(source: str, block: str, space: str = "") -> Sample:
    """Return a call in DeepSeek's DSML; `block` is the name of the outer tag."""
    tag = f"｜DSML｜{space}"
    return one_call(
        f"{LEAD}\n\n<{tag}{block}>\n"
        f'<{tag}invoke name="add_note">\n'
        f'<{tag}parameter name="text" string="true">{TEXT}</{tag}parameter>\n'
        f'<{tag}parameter name="count" string="false">3</{tag}parameter>\n'
        f"</{tag}invoke>\n"
        f"</{tag}{block}>",
        source,
        "｜DSML｜",
        *THINK,
        chat_template_kwargs={"thinking": False},
    )


def qwen_xml(source: str, prefix: str = "", *, line: str = "\n") -> Sample:
    """Return a call in Qwen3 Coder's XML.

    prefix: of the marker tokens' names. line: stands around each value.
    """
    start, end = f"<{prefix}tool_call>", f"</{prefix}tool_call>"
    return one_call(
        f"{LEAD}\n\n{start}\n<function=add_note>\n"
        f"<parameter=text>{line}{TEXT}{line}</parameter>\n"
        f"<parameter=count>{line}3{line}</parameter>\n"
        f"</function>\n{end}",
        source,
        start,
        end,
        f"<{prefix}think>",
        f"</{prefix}think>",
        chat_template_kwargs={"enable_thinking": False},
    )


def json_in_tags(source: str, tag: str, **more: Any) -> Sample:
    """Return a call as a JSON object with name and arguments between tags, as in Hermes."""
    return one_call(
        f"{LEAD}\n<{tag}>\n{CALL_JSON}\n</{tag}>", source, f"<{tag}>", f"</{tag}>", **more
    )


def hunyuan_v3(source: str) -> Sample:
    """Return a call of HY V3."""
    sample = glm(source, "<tool_sep>")
    body = sample.output.removeprefix(LEAD)
    return one_call(
        f"{LEAD}<tool_calls>{body}</tool_calls>",
        source,
        *sample.markers,
        "<tool_sep>",
        "<tool_calls>",
        "</tool_calls>",
    )


def hunyuan_v4(source: str) -> Sample:
    """Return a call of HY V4."""
    sample = glm(source)
    body = sample.output.removeprefix(LEAD)
    return one_call(
        f"{LEAD}<tool_calls>{body}</tool_calls>",
        source,
        *sample.markers,
        "<tool_calls>",
        "</tool_calls>",
        chat_template_kwargs={"reasoning_effort": "no_think"},
    )


COHERE = (
    "<|CHATBOT_TOKEN|>",
    *(
        f"<|{end}_{tag}|>"
        for tag in ("THINKING", "ACTION", "RESPONSE", "TEXT")
        for end in ("START", "END")
    ),
)


def cohere(source: str) -> Sample:
    """Return a call of Command A."""
    call = f'[{{"tool_call_id": "0", "tool_name": "add_note", "parameters": {NOTE_JSON}}}]'
    return one_call(
        f"<|START_RESPONSE|>{LEAD}<|END_RESPONSE|><|START_ACTION|>{call}<|END_ACTION|>",
        source,
        special=COHERE,
        needs="cohere_melody",
    )


K2_HORIZON = (
    f"{LEAD}<ifm|tool_calls><ifm|tool_call>add_note"
    f"<ifm|arg_key>text</ifm|arg_key><ifm|arg_value>{TEXT}</ifm|arg_value>"
    "<ifm|arg_key>count</ifm|arg_key><ifm|arg_value>3</ifm|arg_value>"
    "</ifm|tool_call></ifm|tool_calls>"
)
K2_MARKERS = [
    f"<{slash}ifm|{tag}>"
    for tag in (
        "think",
        "think_fast",
        "think_faster",
        "tool_calls",
        "tool_call",
        "arg_key",
        "arg_value",
    )
    for slash in ("", "/")
]
DEEPSEEK = tuple(
    f"<｜tool▁{part}｜>" for part in ("calls▁begin", "calls▁end", "call▁begin", "call▁end", "sep")
)
STEP3 = tuple(
    f"<｜tool_{part}｜>" for part in ("calls_begin", "calls_end", "call_begin", "call_end", "sep")
)
KIMI_K2 = (
    *(
        f"<|tool_{part}|>"
        for part in ("calls_section_begin", "calls_section_end", "call_begin", "call_end")
    ),
    "<|tool_call_argument_begin|>",
)
INKLING = (
    "<|message_model|>", "<|content_text|>", "<|content_thinking|>", "<|content_invoke_tool_json|>",
    "<|content_invoke_tool_text|>", "<|content_tool_error|>", "<|content_model_end_sampling|>",
    "<|end_message|>",
)  # fmt: skip
MUSE = ("<|start|>", "<|message|>", "<|eom|>", "<|eot|>")
INVOKE = (
    '<invoke name="add_note">\n'
    f'<parameter name="text">{TEXT}</parameter>\n<parameter name="count">3</parameter>\n'
    "</invoke>"
)
ATEM = (
    '<atem:function_calls>\n<atem:invoke name="add_note">\n'
    f'<atem:parameter name="text">{TEXT}</atem:parameter>\n'
    '<atem:parameter name="count">3</atem:parameter>\n'
    "</atem:invoke>\n</atem:function_calls>"
)
M3 = "]<]minimax[>["

MIMO = qwen_xml(PARSER.format("qwen3"))

TOOL_CALLS: dict[str, Sample] = {
    "apertus": one_call(
        f'{LEAD}<|tools_prefix|>[{{"add_note": {NOTE_JSON}}}]<|tools_suffix|>',
        TOOL_PARSER.format("apertus"),
        special=("<|tools_prefix|>", "<|tools_suffix|>"),
    ),
    "cohere_command3": cohere(PARSER.format("cohere_command")),
    "cohere_command4": cohere(PARSER.format("cohere_command")),
    "deepseek_v3": one_call(
        f"{LEAD}<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>add_note\n"
        f"```json\n{NOTE_JSON}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
        TOOL_PARSER.format("deepseekv3"),
        *DEEPSEEK,
    ),
    "deepseek_v31": one_call(
        f"{LEAD}<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>add_note<｜tool▁sep｜>{NOTE_JSON}"
        "<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
        TOOL_PARSER.format("deepseekv31"),
        *DEEPSEEK,
    ),
    "deepseek_v32": dsml(PARSER.format("deepseek_v32"), "function_calls"),
    "deepseek_v4": dsml(PARSER.format("deepseek_v4"), "tool_calls"),
    "deepseek_v41": dsml(PARSER.format("deepseek_v41"), "calls", " "),
    "dots": one_call(
        f"{LEAD}<dots_function_call>\n{INVOKE}\n</dots_function_call>",
        TOOL_PARSER.format("dots"),
        "<dots_function_call>",
        "</dots_function_call>",
    ),
    "ernie45": json_in_tags(TOOL_PARSER.format("ernie45"), "tool_call"),
    "functiongemma": one_call(
        f"<start_function_call>call:add_note{{text:<escape>{TEXT}<escape>,count:3}}"
        "<end_function_call>",
        TOOL_PARSER.format("functiongemma"),
        special=("<start_function_call>", "<end_function_call>", "<escape>"),
    ),
    "gemma4": one_call(
        f'{LEAD}<|tool_call>call:add_note{{text:<|"|>{TEXT}<|"|>,count:3}}<tool_call|>',
        PARSER.format("gemma4"),
        special=(
            "<|tool_call>",
            "<tool_call|>",
            '<|"|>',
            "<|channel>",
            "<channel|>",
            "<|turn>",
            "<|tool_response>",
        ),
    ),
    "gigachat3": one_call(
        f"{LEAD}<|message_sep|>\n\nfunction call<|role_sep|>\n{CALL_JSON}",
        TOOL_PARSER.format("gigachat3"),
        special=("<|message_sep|>", "<|role_sep|>", "<|function_call|>"),
    ),
    "glm45": glm(PARSER.format("glm47_moe"), "\n", suffix="\n"),
    "glm47": glm(PARSER.format("glm47_moe")),
    "granite": one_call(
        f"{LEAD}<|tool_call|>[{CALL_JSON}]", PARSER.format("granite"), special=("<|tool_call|>",)
    ),
    "granite-20b-fc": one_call(
        f"<function_call> {CALL_JSON}", TOOL_PARSER.format("granite_20b_fc"), "<function_call>"
    ),
    "granite4": json_in_tags(TOOL_PARSER.format("granite4"), "tool_call"),
    "hermes": json_in_tags(TOOL_PARSER.format("hermes"), "tool_call"),
    "hunyuan_a13b": one_call(
        f"<tool_calls>[{CALL_JSON}]</tool_calls>", TOOL_PARSER.format("hunyuan_a13b")
    ),
    "hy_v3": hunyuan_v3(TOOL_PARSER.format("hy_v3")),
    "hy_v4": hunyuan_v4(TOOL_PARSER.format("hy_v4")),
    "inkling": one_call(
        f"<|content_text|>{LEAD}<|end_message|><|message_model|><|content_invoke_tool_json|>"
        f'{{"name":"add_note","args":{NOTE_JSON}}}<|end_message|>',
        PARSER.format("inkling"),
        special=INKLING,
    ),
    "internlm": one_call(
        f"{LEAD}<|action_start|><|plugin|>\n"
        f"{CALL_JSON.replace('arguments', 'parameters')}<|action_end|>",
        TOOL_PARSER.format("internlm2"),
        special=("<|action_start|>", "<|plugin|>", "<|action_end|>"),
    ),
    "jamba": one_call(
        f"{LEAD}<tool_calls>[\n  {CALL_JSON}\n]</tool_calls>",
        TOOL_PARSER.format("jamba"),
        special=("<tool_calls>", "</tool_calls>"),
    ),
    "k2_horizon": one_call(K2_HORIZON, TOOL_PARSER.format("k2_horizon"), *K2_MARKERS),
    "kimi_k2": one_call(
        f"{LEAD}<|tool_calls_section_begin|><|tool_call_begin|>functions.add_note:0"
        f"<|tool_call_argument_begin|>{NOTE_JSON}<|tool_call_end|><|tool_calls_section_end|>",
        PARSER.format("kimi_k2"),
        *KIMI_K2,
        *THINK,
        chat_template_kwargs={"thinking": False},
    ),
    "kimi_k3": one_call(
        f"<|open|>response<|sep|>{LEAD}<|close|>response<|sep|><|open|>tools<|sep|>"
        '<|open|>call tool="add_note" index="1"<|sep|>'
        f'<|open|>argument key="text" type="string"<|sep|>{TEXT}<|close|>argument<|sep|>'
        '<|open|>argument key="count" type="integer"<|sep|>3<|close|>argument<|sep|>'
        "<|close|>call<|sep|><|close|>tools<|sep|>",
        TOOL_PARSER.format("kimi_k3"),
        special=("<|open|>", "<|close|>", "<|sep|>"),
        chat_template_kwargs={"thinking": False},
    ),
    "lfm2": one_call(
        f"<|tool_call_start|>[{PYTHONIC}]<|tool_call_end|>",
        TOOL_PARSER.format("lfm2"),
        special=("<|tool_call_start|>", "<|tool_call_end|>"),
    ),
    "ling3": glm(PARSER.format("ling3")),
    "llama3_json": one_call(
        f'{{"name": "add_note", "parameters": {NOTE_JSON}}}',
        TOOL_PARSER.format("llama"),
        special=("<|python_tag|>",),
    ),
    "llama4_json": one_call(
        f'{{"name": "add_note", "parameters": {NOTE_JSON}}}',
        TOOL_PARSER.format("llama"),
        special=("<|python_tag|>",),
    ),
    "llama4_pythonic": one_call(f"[{PYTHONIC}]", TOOL_PARSER.format("llama4_pythonic")),
    "longcat": json_in_tags(TOOL_PARSER.format("longcat"), "longcat_tool_call"),
    "mimo": replace(MIMO, output=MIMO.output.replace("\n", "")),
    "minicpm5": one_call(
        f'{LEAD}<function name="add_note"><param name="text">{TEXT}</param>'
        '<param name="count">3</param></function>',
        TOOL_PARSER.format("minicpm5xml"),
        special=("<function", "</function>", "<param", "</param>"),
    ),
    "minimax_m2": one_call(
        f"{LEAD}<minimax:tool_call>{INVOKE}</minimax:tool_call>",
        PARSER.format("minimax_m2"),
        "<minimax:tool_call>",
        "</minimax:tool_call>",
        *THINK,
    ),
    "minimax_m3": one_call(
        f'{LEAD}{M3}<tool_call>{M3}<invoke name="add_note">'
        f"{M3}<text>{TEXT}{M3}</text>{M3}<count>3{M3}</count>"
        f"{M3}</invoke>{M3}</tool_call>",
        TOOL_PARSER.format("minimax_m3"),
        needs="vllm._rust_tool_parser",
    ),
    "mistral": one_call(
        f"{LEAD}[TOOL_CALLS]add_note[ARGS]{NOTE_JSON}",
        PARSER.format("mistral"),
        special=("[TOOL_CALLS]", "[ARGS]", "[THINK]", "[/THINK]"),
    ),
    "mistral tekken": one_call(
        f"{LEAD}[TOOL_CALLS][{CALL_JSON}]", PARSER.format("mistral"), tokenizer="tekken"
    ),
    "mistral sentencepiece": one_call(
        f"[TOOL_CALLS][{CALL_JSON}]", PARSER.format("mistral"), tokenizer="sentencepiece"
    ),
    "muse_glimmer": one_call(
        f" to=add_note<|message|>{ATEM}<|eom|>", TOOL_PARSER.format("muse_glimmer"), special=MUSE
    ),
    "olmo3": one_call(f"<function_calls>{PYTHONIC}</function_calls>", TOOL_PARSER.format("olmo3")),
    "openai": one_call(
        f"<|channel|>commentary<|message|>{LEAD}<|end|>"
        f"<|start|>assistant<|channel|>commentary to=functions.add_note "
        f"<|constrain|>json<|message|>{NOTE_JSON}<|call|>",
        PARSER.format("harmony"),
        tokenizer="harmony",
        architecture="gpt_oss",
    ),
    "phi4_mini_json": one_call(f"functools[{CALL_JSON}]", TOOL_PARSER.format("phi4mini")),
    "poolside_v1": glm(TOOL_PARSER.format("poolside_v1"), "\n", suffix="\n"),
    "pythonic": one_call(f"[{PYTHONIC}]", TOOL_PARSER.format("pythonic")),
    "qwen3_coder": qwen_xml(PARSER.format("qwen3")),
    "qwen3_xml": qwen_xml(PARSER.format("qwen3")),
    "seed_oss": qwen_xml(PARSER.format("seed_oss"), "seed:", line=""),
    "step3": one_call(
        f"{LEAD}<｜tool_calls_begin｜><｜tool_call_begin｜>function<｜tool_sep｜>"
        f'<steptml:invoke name="add_note"><steptml:parameter name="text">{TEXT}</steptml:parameter>'
        '<steptml:parameter name="count">3</steptml:parameter></steptml:invoke>'
        "<｜tool_call_end｜><｜tool_calls_end｜>",
        TOOL_PARSER.format("step3"),
        special=STEP3,
    ),
    "step3p5": qwen_xml(TOOL_PARSER.format("step3p5")),
    "xlam": one_call(f"[{CALL_JSON}]", TOOL_PARSER.format("xlam")),
}

# Parsers that only Dynamo's frontend has, or an engine's newer version.
MORE_TOOL_CALLS: dict[str, Sample] = {
    "beam": one_call(
        " to=add_note<|channel|>analysis <|constrain|>xml<|message|>"
        f'<rfl:parameter name="text">\n{TEXT}\n</rfl:parameter>'
        '<rfl:parameter name="count">\n3\n</rfl:parameter><|call|>',
        "sglang 0.5.23 parser/beam.py",
        tokenizer="harmony",
    ),
    "plamo3": one_call(
        f"{LEAD}<|plamo:begin_tool_requests:plamo|><|plamo:begin_tool_request:plamo|>"
        "<|plamo:begin_tool_name:plamo|>add_note<|plamo:end_tool_name:plamo|>"
        "<|plamo:begin_tool_arguments:plamo|><|plamo:constrain|>json<|plamo:msg|>"
        f"{NOTE_JSON}<|plamo:end_tool_arguments:plamo|>"
        "<|plamo:end_tool_request:plamo|><|plamo:end_tool_requests:plamo|>",
        "vllm 0.33 parser/plamo3.py",
        special=("<|plamo:begin_", "<|plamo:end_", ":plamo|>"),
        chat_template_kwargs={"enable_thinking": False},
    ),
    "apriel": one_call(
        f"[BEGIN FINAL RESPONSE]\n{LEAD}\n<tool_calls>[{CALL_JSON}]</tool_calls>",
        "ServiceNow-AI/Apriel-1.6-15b-Thinker chat template",
    ),
    "iquest_coder_v2": one_call(
        f"{LEAD}\n<iquestcoder_tool_call>add_note\n<arg_key>text</arg_key>\n"
        f"<arg_value>{TEXT}</arg_value>\n<arg_key>count</arg_key>\n<arg_value>3</arg_value>\n"
        "</iquestcoder_tool_call>",
        "vllm 0.33 tool_parsers",
    ),
    "openpangu_v2": one_call(
        f"{LEAD}<|tool_call_start|>[{CALL_JSON}]<|tool_call_end|>",
        "vllm 0.33 tool_parsers/openpangu_v2_tool_parser.py",
        special=("<|tool_call_start|>", "<|tool_call_end|>"),
    ),
    "sarashina": one_call(
        f"{LEAD}<|tool_calls|>[{PYTHON_OBJECT}]",
        "docs/compatibility.md",
        special=("<|tool_calls|>",),
    ),
    "solar_open": one_call(
        f"<|content|>{LEAD}<|end|><|begin|>assistant<|tool_calls|><|tool_call:begin|>call000000"
        f"<|tool_call:name|>add_note<|tool_call:args|>{NOTE_JSON}<|tool_call:end|><|calls|>",
        "upstage/Solar-Open-100B chat template",
        special=SOLAR,
    ),
    "solar_open2": one_call(
        f"{LEAD}<|tool_call:start|>add_note\n<|tool_arg:start|>text<|tool_arg:value|>{TEXT}"
        "<|tool_arg:end|>\n<|tool_arg:start|>count<|tool_arg:value|>3<|tool_arg:end|>\n"
        "<|tool_call:end|>",
        "docs/compatibility.md",
        special=SOLAR_2,
    ),
    "step_audio_2": one_call(
        f"{LEAD}<tool_call>function\nadd_note\n{NOTE_JSON}</tool_call>",
        "stepfun-ai/Step-Audio-2-mini chat template",
    ),
    "nemotron_deci": one_call(
        f"{LEAD}<TOOLCALL>[{CALL_JSON}]</TOOLCALL>",
        "nvidia/Llama-3_3-Nemotron-Super-49B-v1 chat template",
    ),
}
