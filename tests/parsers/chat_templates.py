"""A chat template for each format with calls, and where public ones are found.

The templates here are our own and as short as can be: they write a call as the format's
documentation says, and nothing else of the family. Real ones come from installed packages: trl
ships those of many models, vLLM a few of models without tools.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

# What a template is made of: `f` is the call's function, `c` the call. NAME and ARGS stand for the
# two that most calls have.
FRAME = (
    "{% if tools %}<|tools|>{{ tools | tojson }}{% endif %}"
    "{% for m in messages %}<|{{ m.role }}|>{% if m.tool_calls %}"
    "@BEGIN@{% for c in m.tool_calls %}{% set f = c.function %}@CALL@{% endfor %}@END@"
    "{% else %}{{ m.content }}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
JSON_CALL = '{"name": "NAME", "arguments": ARGS}'
PARAMETERS_CALL = JSON_CALL.replace('arguments":', 'parameters":')


def each(argument: str) -> str:
    """Return Jinja for all arguments: `k` is the key, `v` the value, `t` the value as text."""
    text = "{% set t = v if v is string else v | tojson %}"
    return f"{{% for k, v in f.arguments.items() %}}{text}{argument}{{% endfor %}}"


def keyed(key: str, value: str) -> str:
    return each(f"<{key}>{{{{ k }}}}</{key}>\n<{value}>{{{{ t }}}}</{value}>\n")


def invoke(prefix: str = "") -> str:
    parameter = f'<{prefix}parameter name="{{{{ k }}}}">{{{{ t }}}}</{prefix}parameter>\n'
    return f'<{prefix}invoke name="NAME">\n{each(parameter)}</{prefix}invoke>\n'


def dsml(mark: str, section: str) -> tuple[str, str, str]:
    kind = "string=\"{{ 'true' if v is string else 'false' }}\""
    parameter = f'<{mark}parameter name="{{{{ k }}}}" {kind}>{{{{ t }}}}</{mark}parameter>\n'
    call = f'<{mark}invoke name="NAME">\n{each(parameter)}</{mark}invoke>\n'
    return f"<{mark}{section}>\n", call, f"</{mark}{section}>"


def gemma(begin: str, quote: str, end: str) -> tuple[str, str, str]:
    value = (
        f"{{{{ k }}}}:{{% if v is string %}}{quote}{{{{ v }}}}{quote}{{% else %}}{{{{ t }}}}"
        "{% endif %}{% if not loop.last %},{% endif %}"
    )
    return "", f"{begin}call:{{{{ f.name + '{{' }}}}{each(value)}{{{{ '}}' }}}}{end}", ""


PYTHON_CALL = "NAME(" + each("{{ k }}={{ v | tojson }}{% if not loop.last %}, {% endif %}") + ")"
QWEN_CALL = (
    "<function=NAME>\n" + each("<parameter={{ k }}>\n{{ t }}\n</parameter>\n") + "</function>"
)
GLM_CALL = "<tool_call>NAME\n" + keyed("arg_key", "arg_value") + "</tool_call>"
M3 = "]<]minimax[>["
# By format: what stands before the calls, each call, and what stands behind them.
TURNS: dict[str, tuple[str, str, str]] = {
    "apriel": (
        "{# ServiceNow: [BEGIN FINAL RESPONSE] #}<tool_calls>[",
        JSON_CALL,
        "]</tool_calls>",
    ),
    "apertus": (
        "<|tools_prefix|>[",
        '{"NAME": ARGS}',
        "]<|tools_suffix|>",
    ),
    "cohere_command3": (
        "<|START_ACTION|>[",
        '{"tool_call_id": "0", "tool_name": "NAME", "parameters": ARGS}',
        "]<|END_ACTION|>",
    ),
    "deepseek_v3": (
        "<｜tool▁calls▁begin｜>",
        ("<｜tool▁call▁begin｜>function<｜tool▁sep｜>NAME\n```json\nARGS\n```<｜tool▁call▁end｜>"),
        "<｜tool▁calls▁end｜>",
    ),
    "deepseek_v31": (
        "<｜tool▁calls▁begin｜>",
        "<｜tool▁call▁begin｜>NAME<｜tool▁sep｜>ARGS<｜tool▁call▁end｜>",
        "<｜tool▁calls▁end｜>",
    ),
    "deepseek_v32": dsml("｜DSML｜", "function_calls"),
    "deepseek_v4": dsml("｜DSML｜", "tool_calls"),
    "deepseek_v41": dsml("｜DSML｜ ", "calls"),
    "dots": ("<dots_function_call>", invoke(), "</dots_function_call>"),
    "ernie45": (
        "<response>\n{{ m.content }}\n</response>\n",
        f"<tool_call>\n{JSON_CALL}\n</tool_call>\n",
        "",
    ),
    "functiongemma": gemma("<start_function_call>", "<escape>", "<end_function_call>"),
    "gemma4": gemma("<|tool_call>", '<|"|>', "<tool_call|>"),
    "gigachat3": ("<|message_sep|>function call<|role_sep|>\n", JSON_CALL, ""),
    "gigachat35": dsml("｜GCML｜", "tool_calls"),
    "glm45": ("", GLM_CALL, ""),
    "granite": ("<|tool_call|>[", JSON_CALL, "]"),
    "granite-20b-fc": ("", f"<function_call> {JSON_CALL}", ""),
    "hermes": ("", f"<tool_call>\n{JSON_CALL}\n</tool_call>", ""),
    "hunyuan_a13b": (
        "<answer>\n{{ m.content }}\n</answer>\n<tool_calls>[",
        JSON_CALL,
        "]</tool_calls>",
    ),
    "hy_v3": (
        "<tool_calls>",
        "<tool_call>NAME<tool_sep>" + keyed("arg_key", "arg_value") + "</tool_call>",
        "</tool_calls>",
    ),
    "inkling": (
        "<|message_model|>",
        ('NAME<|content_invoke_tool_json|>{"name": "NAME", "args": ARGS}<|end_message|>'),
        "",
    ),
    "internlm": ("<|action_start|><|plugin|>", PARAMETERS_CALL, "<|action_end|>"),
    "iquest_coder_v2": ("", GLM_CALL.replace("tool_call>", "iquestcoder_tool_call>"), ""),
    "iquest_q1": ("", GLM_CALL.replace("tool_call>", "iquest_tool_call>"), ""),
    "jamba": ("<tool_calls>[", JSON_CALL, "]</tool_calls>"),
    "k2_horizon": (
        "<ifm|tool_calls>",
        "<ifm|tool_call>NAME"
        + keyed("ifm|arg_key", "ifm|arg_value").replace("</ifm|arg_key>\n", "</ifm|arg_key>")
        + "</ifm|tool_call>",
        "</ifm|tool_calls>",
    ),
    "kimi_k2": (
        "<|tool_calls_section_begin|>",
        ("<|tool_call_begin|>{{ c.id }}<|tool_call_argument_begin|>ARGS<|tool_call_end|>"),
        "<|tool_calls_section_end|>",
    ),
    "kimi_k3": (
        "<|open|>tools<|sep|>",
        '<|open|>call tool="NAME" index="1"<|sep|>'
        + each(
            "<|open|>argument key=\"{{ k }}\" type=\"{{ 'string' if v is string else 'number' }}\""
            "<|sep|>{{ t }}<|close|>argument<|sep|>"
        )
        + "<|close|>call<|sep|>",
        "<|close|>tools<|sep|>",
    ),
    "lfm2": ("<|tool_call_start|>[", PYTHON_CALL, "]<|tool_call_end|>"),
    "llama3_json": ("", PARAMETERS_CALL, ""),
    "ling3": ("", GLM_CALL, "<|role_end|>"),
    "longcat": ("", f"<longcat_tool_call>\n{JSON_CALL}\n</longcat_tool_call>", ""),
    "minicpm5": (
        "",
        '<function name="NAME">' + each('<param name="{{ k }}">{{ t }}</param>') + "</function>",
        "",
    ),
    "minimax_m2": ("<minimax:tool_call>\n", invoke(), "</minimax:tool_call>"),
    "minimax_m3": (
        f"{M3}<tool_call>\n",
        f'{M3}<invoke name="NAME">'
        + each(f"{M3}<{{{{ k }}}}>{{{{ t }}}}{M3}</{{{{ k }}}}>")
        + f"{M3}</invoke>\n",
        f"{M3}</tool_call>",
    ),
    "mistral": ("", "[TOOL_CALLS]NAME[ARGS]ARGS", "</s>"),
    "muse_glimmer": (
        " to=functions<|message|><atem:function_calls>\n",
        invoke("atem:"),
        "</atem:function_calls><|eom|>",
    ),
    "nemotron_deci": ("<TOOLCALL>[", JSON_CALL, "]</TOOLCALL>"),
    "olmo3": ("<function_calls>", PYTHON_CALL, "</function_calls>"),
    "beam": (
        "",
        " to=NAME<|channel|>analysis <|constrain|>xml<|message|>"
        + each('<rfl:parameter name="{{ k }}">\n{{ t }}\n</rfl:parameter>')
        + "<|call|>",
        "",
    ),
    "mimo": (
        "",
        "<tool_call><function=NAME>"
        + each("<parameter={{ k }}>{{ t }}</parameter>")
        + "</function></tool_call>",
        "",
    ),
    "openai": (
        "",
        ("<|channel|>commentary to=functions.NAME <|constrain|>json<|message|>ARGS<|call|>"),
        "",
    ),
    "openpangu_v2": ("{# Pangu #}<|tool_call_start|>[", JSON_CALL, "]<|tool_call_end|>"),
    "phi4_mini_json": ("functools[", JSON_CALL, "]"),
    "plamo3": (
        "<|plamo:begin_tool_requests:plamo|>",
        (
            "<|plamo:begin_tool_request:plamo|>"
            "<|plamo:begin_tool_name:plamo|>NAME<|plamo:end_tool_name:plamo|>"
            "<|plamo:begin_tool_arguments:plamo|><|plamo:constrain|>json<|plamo:msg|>ARGS"
            "<|plamo:end_tool_arguments:plamo|><|plamo:end_tool_request:plamo|>"
        ),
        "<|plamo:end_tool_requests:plamo|>",
    ),
    "poolside_v1": (
        "{# an unescaped XML-like object #}",
        GLM_CALL,
        "",
    ),
    "pythonic": ("[", PYTHON_CALL, "]"),
    "qwen3_coder": ("", f"<tool_call>\n{QWEN_CALL}\n</tool_call>", ""),
    "sarashina": ("<|tool_calls|>[", "{'name': 'NAME', 'arguments': ARGS}", "]"),
    "seed_oss": (
        "",
        "<seed:tool_call>\n<function=NAME>\n"
        + each("<parameter={{ k }}>{{ t }}</parameter>\n")
        + "</function>\n</seed:tool_call>",
        "",
    ),
    "solar_open": (
        "<|tool_calls|>",
        (
            "<|tool_call:begin|>{{ c.id }}<|tool_call:name|>NAME<|tool_call:args|>ARGS"
            "<|tool_call:end|>"
        ),
        "<|calls|>",
    ),
    "solar_open2": (
        "",
        "<|tool_call:start|>NAME\n"
        + each("<|tool_arg:start|>{{ k }}<|tool_arg:value|>{{ t }}<|tool_arg:end|>\n")
        + "<|tool_call:end|>",
        "",
    ),
    "step_audio_2": ("", "<tool_call>function\nNAME\nARGS</tool_call>", ""),
    "step3": (
        "<｜tool_calls_begin｜>",
        "<｜tool_call_begin｜>function<｜tool_sep｜>" + invoke("steptml:") + "<｜tool_call_end｜>",
        "<｜tool_calls_end｜>",
    ),
    "xlam": ("[", JSON_CALL, "]"),
}


def build_template(name: str) -> str:
    """Return our template of a format."""
    begin, call, end = TURNS[name]
    source = FRAME.replace("@BEGIN@", begin).replace("@CALL@", call).replace("@END@", end)
    return source.replace("NAME", "{{ f.name }}").replace("ARGS", "{{ f.arguments | tojson }}")


def find_packaged(package: str, folder: str) -> dict[str, Path]:
    """Return the templates that an installed package ships, by name; the package stays unloaded."""
    spec = importlib.util.find_spec(package)
    roots = spec.submodule_search_locations if spec is not None else None
    paths = [path for root in roots or () for path in (Path(root) / folder).glob("*.jinja")]
    return {path.stem: path for path in sorted(paths)}
