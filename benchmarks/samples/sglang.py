"""Samples for every parser of SGLang: mostly those of vLLM's parser for the same models."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from .pairs import reasoned_call
from .reasoning import REASONING_SAMPLES, think, thought
from .sample import ANSWER, LEAD, PROMPT, THOUGHT, Sample
from .tool_calls import CALL_JSON, TEXT, TOOL_CALLS, one_call

TOOL_DETECTOR, REASONING = (
    "sglang function_call/{}_detector.py",
    "sglang parser/reasoning_parser.py",
)
APERTUS = ("<|inner_prefix|>", "<|inner_suffix|>", "<|tools_prefix|>", "<|tools_suffix|>")
ARGUMENTS = (
    f"<arg_key>text</arg_key><arg_value>{TEXT}</arg_value>\n"
    "<arg_key>count</arg_key><arg_value>3</arg_value>\n"
)
GCML = (
    '<｜GCML｜invoke name="add_note">\n'
    f'<｜GCML｜parameter name="text" string="true">{TEXT}</｜GCML｜parameter>\n'
    '<｜GCML｜parameter name="count" string="false">3</｜GCML｜parameter>\n</｜GCML｜invoke>'
)


def like(name: str, **changes: Any) -> Sample:
    """Return the sample of vLLM's tool parser `name`, without the needs of vLLM's parser."""
    return replace(TOOL_CALLS[name], needs=None, architecture=None, **changes)


def thinks_like(name: str, **changes: Any) -> Sample:
    """Return the sample of vLLM's reasoning parser `name`, without the needs of vLLM's parser."""
    return replace(REASONING_SAMPLES[name], needs=None, architecture=None, **changes)


SGLANG_TOOL_CALLS: dict[str, Sample] = {
    "apertus2509": like("apertus"),
    "cohere_command4": like("cohere_command4"),
    "deepseekv3": like("deepseek_v3"),
    "deepseekv31": like("deepseek_v31"),
    "deepseekv32": like("deepseek_v32"),
    "deepseekv4": like("deepseek_v4"),
    "deepseekv41": like("deepseek_v41"),
    "dots": like("dots"),
    "gemma4": like("gemma4"),
    "gigachat3": like("gigachat3"),
    "gigachat35": one_call(
        f"{LEAD}\n<｜GCML｜tool_calls>\n{GCML}\n</｜GCML｜tool_calls>",
        TOOL_DETECTOR.format("gigachat35"),
        "｜GCML｜",
    ),
    "glm": like("glm45"),
    "glm45": like("glm45"),
    "glm47": like("glm47"),
    "gpt-oss": like("openai"),
    "hermes": like("hermes"),
    "hunyuan": like("hy_v3"),
    "hunyuan v4": like("hy_v4"),
    "inkling": like("inkling"),
    "interns1": like(
        "internlm", output=TOOL_CALLS["internlm"].output.replace("><|plugin|>", "> <|plugin|>")
    ),
    "iquest_q1": one_call(
        f"{LEAD}\n<iquest_tool_call>add_note\n{ARGUMENTS}</iquest_tool_call>",
        TOOL_DETECTOR.format("iquest_q1"),
        "<iquest_tool_call>",
        "</iquest_tool_call>",
    ),
    "k2_horizon": like("k2_horizon"),
    "kimi_k2": like("kimi_k2"),
    "kimi_k3": like("kimi_k3"),
    "lfm2": like("lfm2"),
    "ling3": like("ling3"),
    "llama3": like("llama3_json"),
    "mimo": like("mimo"),
    "minicpm5": like("minicpm5"),
    "minimax-m2": like("minimax_m2"),
    "minimax-m3": like("minimax_m3"),
    "mistral": like("mistral"),
    "mistral array": one_call(
        f"{LEAD}[TOOL_CALLS] [{CALL_JSON}]",
        TOOL_DETECTOR.format("mistral"),
        special=("[TOOL_CALLS]",),
    ),
    "muse": like("muse_glimmer"),
    "nanbeige": like("qwen3_coder"),
    "poolside_v1": like("poolside_v1"),
    "pythonic": like("pythonic"),
    "qwen": like("hermes"),
    "qwen25": like("hermes"),
    "qwen3_coder": like("qwen3_coder"),
    "spark25": one_call(
        f"{LEAD}\n<tool_call>add_note\n{ARGUMENTS}</tool_call>",
        TOOL_DETECTOR.format("spark25"),
        "<tool_call>",
        "</tool_call>",
    ),
    "step3": like("step3"),
    "step3p5": like("step3p5"),
    "trinity": like("hermes"),
}
SGLANG_REASONING: dict[str, Sample] = {
    "apertus2509": thought(
        f"<|inner_prefix|>{THOUGHT}<|inner_suffix|>{ANSWER}", REASONING, special=APERTUS
    ),
    "cohere_command4": thought(
        f"{THOUGHT}<|END_THINKING|><|START_TEXT|>{ANSWER}<|END_TEXT|>",
        REASONING,
        special=REASONING_SAMPLES["cohere_command4"].special,
        prompt=PROMPT + "<|START_THINKING|>",
    ),
    "deepseek-r1": thinks_like("deepseek_r1"),
    "deepseek-v3": thinks_like("deepseek_v3"),
    "deepseek-v4": thinks_like("deepseek_v4"),
    "deepseek-v41": thinks_like("deepseek_v41"),
    "dots": think(REASONING),
    "gemma4": thinks_like("gemma4"),
    "gigachat35": think(REASONING, opened=True),
    "glm45": thinks_like("glm45"),
    "gpt-oss": thinks_like("openai_gptoss"),
    "granite_thinking_parser": thinks_like("granite_thinking_parser"),
    "hunyuan": thinks_like("hy_v3"),
    "inkling": thinks_like("inkling"),
    "interns1": think(REASONING),
    "iquest_q1": think(REASONING, opened=True),
    "k2_horizon": thinks_like("k2_horizon"),
    "kimi": thought(f"◁think▷{THOUGHT}◁/think▷{ANSWER}", REASONING, "◁think▷", "◁/think▷"),
    "kimi_k2": thinks_like("kimi_k2"),
    "kimi_k3": thinks_like("kimi_k3"),
    "ling3": thinks_like("ling3"),
    "mimo": thinks_like("mimo"),
    "minimax": thinks_like("minimax_m2"),
    "minimax-append-think": thinks_like("minimax_m2_append_think"),
    "minimax-m3": thinks_like("minimax_m3"),
    "mistral": thinks_like("mistral", chat_template_kwargs={"reasoning_effort": "high"}),
    "muse": thinks_like("muse_glimmer"),
    "nanbeige": think(REASONING),
    "nemotron_3": thinks_like("nemotron_v3"),
    "poolside_v1": thinks_like("poolside_v1"),
    "qwen3": thinks_like("qwen3"),
    "qwen3-thinking": think(REASONING, opened=True),
    "step3": thinks_like("step3"),
    "step3p5": thinks_like("step3p5"),
}
SGLANG_PAIRS = (
    ("apertus2509", "apertus2509"),
    ("deepseekv3", "deepseek-r1"),
    ("deepseekv31", "deepseek-v3"),
    ("deepseekv4", "deepseek-v4"),
    ("deepseekv41", "deepseek-v41"),
    ("dots", "dots"),
    ("gemma4", "gemma4"),
    ("gigachat35", "gigachat35"),
    ("glm45", "glm45"),
    ("glm47", "glm45"),
    ("gpt-oss", "gpt-oss"),
    ("hermes", "qwen3"),
    ("hunyuan", "hunyuan"),
    ("inkling", "inkling"),
    ("interns1", "interns1"),
    ("iquest_q1", "iquest_q1"),
    ("k2_horizon", "k2_horizon"),
    ("kimi_k2", "kimi_k2"),
    ("kimi_k3", "kimi_k3"),
    ("ling3", "ling3"),
    ("mimo", "mimo"),
    ("minimax-m2", "minimax"),
    ("minimax-m3", "minimax-m3"),
    ("mistral", "mistral"),
    ("muse", "muse"),
    ("nanbeige", "nanbeige"),
    ("poolside_v1", "poolside_v1"),
    ("qwen25", "qwen3"),
    ("qwen25", "qwen3-thinking"),
    ("qwen3_coder", "nemotron_3"),
    ("qwen3_coder", "qwen3"),
    ("step3", "step3"),
    ("step3p5", "step3p5"),
)
SGLANG_REASONED_CALLS: dict[tuple[str, str], Sample] = {
    (tool, reasoning): reasoned_call(SGLANG_TOOL_CALLS[tool], SGLANG_REASONING[reasoning])
    for tool, reasoning in SGLANG_PAIRS
}
# The call's sample of this parser has reasoning already.
COMMAND = SGLANG_TOOL_CALLS["cohere_command4"]
SGLANG_REASONED_CALLS["cohere_command4", "cohere_command4"] = replace(
    COMMAND,
    output=COMMAND.output.replace(
        f"<|START_RESPONSE|>{LEAD}<|END_RESPONSE|>", f"{THOUGHT}<|END_THINKING|>"
    ),
    expected=replace(COMMAND.expected, content=None, reasoning=THOUGHT),
    prompt=PROMPT + "<|START_THINKING|>",
)
