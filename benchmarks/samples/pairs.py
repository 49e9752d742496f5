"""Reasoning, then a call: samples for each pair of parsers that serves one model."""

from __future__ import annotations

from dataclasses import replace

from .reasoning import REASONING_SAMPLES
from .sample import ANSWER, THOUGHT, Sample
from .tool_calls import TOOL_CALLS

TURN = "<|start|>assistant"

# (tool parser, reasoning parser), as the models' own instructions pair them.
PAIRS = (
    ("deepseek_v3", "deepseek_r1"),
    ("deepseek_v31", "deepseek_v3"),
    ("deepseek_v32", "deepseek_v3"),
    ("deepseek_v4", "deepseek_v4"),
    ("deepseek_v41", "deepseek_v41"),
    ("gemma4", "gemma4"),
    ("glm45", "glm45"),
    ("glm47", "glm47"),
    ("hermes", "deepseek_r1"),
    ("hermes", "qwen3"),
    ("hy_v3", "hy_v3"),
    ("hy_v4", "hy_v4"),
    ("inkling", "inkling"),
    ("k2_horizon", "k2_horizon"),
    ("kimi_k2", "kimi_k2"),
    ("kimi_k3", "kimi_k3"),
    ("ling3", "ling3"),
    ("mimo", "mimo"),
    ("minimax_m2", "minimax_m2"),
    ("mistral", "mistral"),
    ("muse_glimmer", "muse_glimmer"),
    ("olmo3", "olmo3"),
    ("openai", "openai_gptoss"),
    ("poolside_v1", "poolside_v1"),
    ("qwen3_coder", "nemotron_v3"),
    ("qwen3_coder", "qwen3"),
    ("qwen3_xml", "qwen3"),
    ("seed_oss", "seed_oss"),
    ("step3", "step3"),
    ("step3p5", "step3p5"),
)


def reasoned_call(tool: Sample, reasoning: Sample) -> Sample:
    """Return a sample that reasons as `reasoning` does and then calls as `tool` does."""
    before = reasoning.output.partition(ANSWER)[0]
    head, turn, _ = before.rpartition(TURN)
    before = head + turn or before
    # Both samples may hold the marker that opens the answer: keep one.
    lengths = range(len(before), -1, -1)
    overlap = next(
        length for length in lengths if tool.output.startswith(before[len(before) - length :])
    )
    return replace(
        reasoning,
        output=before + tool.output[overlap:],
        expected=replace(tool.expected, reasoning=THOUGHT),
        markers=tuple(dict.fromkeys(reasoning.markers + tool.markers)),
        special=tuple(dict.fromkeys(reasoning.special + tool.special)),
        tools=tool.tools,
        source=f"{reasoning.source}, {tool.source}",
    )


REASONED_CALLS: dict[tuple[str, str], Sample] = {
    (tool, reasoning): reasoned_call(TOOL_CALLS[tool], REASONING_SAMPLES[reasoning])
    for tool, reasoning in PAIRS
}
