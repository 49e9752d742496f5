"""The names of our parsers in the engines' own servers, `vllm serve` and `sglang.launch_server`.

A list and not the catalog: the engines load plugins in each of their processes, and none of them
may import a parser before its name is asked for.
"""

from __future__ import annotations

AUTO = "backedge"
"""Stands for the parsers that fit the model's chat template."""
PREFIX = "backedge_"

TOOL_CALL_PARSERS = (
    "apertus apriel beam cohere_command3 deepseek_v3 deepseek_v31 deepseek_v32 deepseek_v4 "
    "deepseek_v41 dots ernie45 functiongemma gemma4 gigachat3 gigachat35 glm45 granite "
    "granite-20b-fc hermes hunyuan_a13b hy_v3 inkling internlm iquest_coder_v2 iquest_q1 jamba "
    "k2_horizon kimi_k2 kimi_k3 lfm2 ling3 llama3_json longcat mimo minicpm5 minimax_m2 "
    "minimax_m3 mistral muse_glimmer nemotron_deci olmo3 openai openpangu_v2 phi4_mini_json "
    "plamo3 poolside_v1 pythonic qwen3_coder sarashina seed_oss solar_open solar_open2 step3 "
    "step_audio_2 xlam"
).split()
REASONING_PARSERS = (
    "apertus apriel basic beam cohere_command3 deepseek_r1 deepseek_v3 deepseek_v4 deepseek_v41 "
    "ernie45 gemma4 gigachat35 glm45 granite holo2 hunyuan_a13b hy_v3 inkling internlm "
    "iquest_coder_v2 iquest_q1 k2_horizon kimi kimi_k2 kimi_k3 ling3 longcat minimax_m2 "
    "minimax_m2_append_think minimax_m3 mistral muse_glimmer olmo3 openai openpangu_v2 plamo3 "
    "poolside_v1 qwen3 seed_oss solar_open solar_open2 step3"
).split()


def list_names(parsers: list[str]) -> list[str]:
    """Return the names in a server of parsers from one of the two lists."""
    return [AUTO, *(PREFIX + name for name in parsers)]


def find_own_name(name: object) -> str | None:
    """Return our name of the parser that a server calls `name`; None if it is not ours.

    "auto" for the parsers that fit the model.
    """
    if name == AUTO:
        return "auto"
    is_ours = isinstance(name, str) and name.startswith(PREFIX)
    return str(name).removeprefix(PREFIX) if is_ours else None
