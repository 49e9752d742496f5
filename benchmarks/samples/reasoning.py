"""Reasoning, then text, in the syntax of every reasoning parser of vLLM."""

from __future__ import annotations

from typing import Any

from .sample import ANSWER, PROMPT, THOUGHT, Outcome, Sample
from .tool_calls import COHERE, INKLING, K2_MARKERS, MUSE, THINK

PARSER, REASONING = "parser/{}.py", "reasoning/{}_reasoning_parser.py"
THINKING_ON = {"thinking": True, "enable_thinking": True}


def thought(output: str, source: str, *markers: str, **more: Any) -> Sample:
    """Return a sample of THOUGHT, then ANSWER."""
    return Sample(output, Outcome(THOUGHT, ANSWER), source, markers, **more)


def think(source: str, *, opened: bool = False, tag: str = "think", **more: Any) -> Sample:
    """Return a sample in think tags. opened: whether the prompt has the opening tag."""
    start, end = f"<{tag}>", f"</{tag}>"
    return thought(
        f"{'' if opened else start}{THOUGHT}{end}{ANSWER}",
        source,
        start,
        end,
        prompt=PROMPT + start if opened else PROMPT,
        **more,
    )


def cohere(source: str) -> Sample:
    """Return a sample of Command A."""
    return thought(
        f"<|START_THINKING|>{THOUGHT}<|END_THINKING|><|START_RESPONSE|>{ANSWER}<|END_RESPONSE|>",
        source,
        special=COHERE,
        needs="cohere_melody",
    )


REASONING_SAMPLES: dict[str, Sample] = {
    "cohere_command3": cohere(PARSER.format("cohere_command")),
    "cohere_command4": cohere(PARSER.format("cohere_command")),
    "deepseek_r1": think(REASONING.format("deepseek_r1"), opened=True),
    "deepseek_v3": think(
        REASONING.format("deepseek_v3"), opened=True, chat_template_kwargs=THINKING_ON
    ),
    "deepseek_v4": think(
        PARSER.format("deepseek_v4"), opened=True, chat_template_kwargs=THINKING_ON
    ),
    "deepseek_v41": think(
        PARSER.format("deepseek_v41"), opened=True, chat_template_kwargs=THINKING_ON
    ),
    "ernie45": thought(
        f"{THOUGHT}</think>\n\n<response>\n{ANSWER}</response>\n",
        REASONING.format("ernie45"),
        *THINK,
        "<response>",
        "</response>",
        "<0x0A>",
        prompt=PROMPT + "<think>",
    ),
    "gemma4": thought(
        f"<|channel>thought\n{THOUGHT}<channel|>{ANSWER}",
        PARSER.format("gemma4"),
        special=(
            "<|channel>",
            "<channel|>",
            "<|tool_call>",
            "<tool_call|>",
            '<|"|>',
            "<|turn>",
            "<|tool_response>",
        ),
        chat_template_kwargs=THINKING_ON,
    ),
    "glm45": think(PARSER.format("glm47_moe")),
    "glm47": think(PARSER.format("glm47_moe"), opened=True),
    "granite": thought(
        f"Here is my thought process:{THOUGHT}Here is my response:{ANSWER}",
        REASONING.format("granite"),
        # One token in any real vocabulary; vLLM's parser takes half of it for reasoning.
        "Here",
    ),
    "granite_thinking_parser": think(PARSER.format("granite_thinking"), opened=True),
    "holo2": think(REASONING.format("deepseek_v3"), opened=True),
    "hunyuan_a13b": thought(
        f"<think>\n{THOUGHT}\n</think>\n<answer>\n{ANSWER}\n</answer>",
        REASONING.format("hunyuan_a13b"),
        tokenizer="hunyuan",
        prompt="",
    ),
    "hy_v3": think(
        REASONING.format("hy_v3"), opened=True, chat_template_kwargs={"reasoning_effort": "high"}
    ),
    "hy_v4": think(
        REASONING.format("hy_v4"), opened=True, chat_template_kwargs={"reasoning_effort": "high"}
    ),
    "inkling": thought(
        f"<|message_model|><|content_thinking|>{THOUGHT}<|end_message|>"
        f"<|message_model|><|content_text|>{ANSWER}<|end_message|>",
        PARSER.format("inkling"),
        special=INKLING,
    ),
    "k2_horizon": thought(
        f"{THOUGHT}</ifm|think>{ANSWER}",
        REASONING.format("k2_horizon"),
        *K2_MARKERS,
        prompt=PROMPT + "<ifm|think>",
    ),
    "kimi_k2": think(PARSER.format("kimi_k2")),
    "kimi_k3": thought(
        f"<|open|>think<|sep|>{THOUGHT}<|close|>think<|sep|>"
        f"<|open|>response<|sep|>{ANSWER}<|close|>response<|sep|>",
        REASONING.format("kimi_k3"),
        special=("<|open|>", "<|close|>", "<|sep|>"),
    ),
    "ling3": think(PARSER.format("ling3"), opened=True),
    "mimo": think(PARSER.format("qwen3")),
    "minimax_m2": think(PARSER.format("minimax_m2"), opened=True),
    "minimax_m2_append_think": Sample(
        f"{THOUGHT}</think>{ANSWER}",
        Outcome(None, f"<think>{THOUGHT}</think>{ANSWER}"),
        REASONING.format("minimax_m2"),
        THINK,
        prompt=PROMPT + "<think>",
    ),
    "minimax_m3": think(REASONING.format("minimax_m3"), tag="mm:think"),
    "mistral": thought(
        f"[THINK]{THOUGHT}[/THINK]{ANSWER}",
        PARSER.format("mistral"),
        special=("[TOOL_CALLS]", "[ARGS]", "[THINK]", "[/THINK]"),
    ),
    "muse_glimmer": thought(
        f" to=self<|message|>{THOUGHT}<|eom|><|start|>assistant to=user<|message|>{ANSWER}<|eot|>",
        REASONING.format("muse_glimmer"),
        special=MUSE,
        prompt=PROMPT + "<|start|>assistant",
    ),
    "nemotron_v3": think(PARSER.format("nemotron_v3"), opened=True),
    "olmo3": thought(
        # The markers are several tokens each; vLLM's parser looks these up in the vocabulary.
        f"<think>{THOUGHT}</think>{ANSWER}",
        REASONING.format("olmo3"),
        "Ġ</",
        "</",
        "think",
    ),
    "openai_gptoss": thought(
        f"<|channel|>analysis<|message|>{THOUGHT}<|end|>"
        f"<|start|>assistant<|channel|>final<|message|>{ANSWER}",
        PARSER.format("harmony"),
        tokenizer="harmony",
        architecture="gpt_oss",
        prompt="<|start|>assistant",
    ),
    "poolside_v1": thought(
        f"{THOUGHT}</think>{ANSWER}",
        REASONING.format("poolside_v1"),
        *THINK,
        "<assistant>",
        prompt=PROMPT + "<assistant>\n<think>",
        chat_template_kwargs=THINKING_ON,
    ),
    "qwen3": think(PARSER.format("qwen3")),
    "seed_oss": think(PARSER.format("seed_oss"), tag="seed:think"),
    "step3": think(REASONING.format("step3"), opened=True),
    "step3p5": think(REASONING.format("step3p5"), opened=True),
}
