"""The right parsers for each format's template and for public ones, and none wrongly."""

from __future__ import annotations

import pytest
from backedge.parsers.detection import (
    PROBE_NAME,
    Evidence,
    detect_reasoning,
    detect_tool_calls,
    probe_table,
    reads_probe,
)
from backedge.parsers.parser_lookup import known_formats, reasoning_format, tool_format
from backedge.templates.auto_parsers import probe_loaded
from backedge.templates.environment import LoadedTemplate

from tests.parsers.chat_templates import TURNS, build_template, find_packaged

# trl's copies of public templates, with the parsers of their calls and of their reasoning.
NONE = (None, None)
PUBLIC: dict[str, tuple[str | None, str | None]] = {
    "cohere": NONE,
    "cohere2": NONE,
    "deepseek_r1_distill": ("deepseek_v3", "deepseek_r1"),
    "deepseekv3": ("deepseek_v3", "deepseek_r1"),  # its prompt opens reasoning
    "diffusion_gemma": ("gemma4", "gemma4"),
    "gemma": NONE,
    "gemma3": NONE,
    "gemma4": ("gemma4", "gemma4"),
    "gemma4_v2": ("gemma4", "gemma4"),
    "gemma4_v3": ("gemma4", "gemma4"),
    "gemma4_v4": ("gemma4", "gemma4"),
    "gemma4_v5": ("gemma4", "gemma4"),
    "glm4moe": ("glm45", "glm45"),
    "gptoss": ("openai", "openai"),
    "idefics3": NONE,
    "lfm2": NONE,  # it lists tools, and neither reads nor writes calls
    "lfm2_2_5": ("lfm2", None),
    "lfm2_2_5_v2": ("lfm2", None),
    "lfm2_2_5_vl": ("lfm2", None),
    "lfm2_v2": ("lfm2", None),
    "llama3": NONE,
    "llama3_1": ("llama3_json", None),
    "llama3_2": ("llama3_json", None),
    "llava_next": NONE,
    "muse_glimmer": ("muse_glimmer", "muse_glimmer"),
    "nemotron_3_5_lightning": ("qwen3_coder", "qwen3"),
    "nemotron_3_nano": ("qwen3_coder", "qwen3"),
    "nemotron_3_super": ("qwen3_coder", "qwen3"),
    "nemotron_3_ultra": ("qwen3_coder", "qwen3"),
    "phi3": NONE,
    "phi3_5": NONE,
    "qwen2_5": ("hermes", None),
    "qwen2_5_vl": NONE,
    "qwen3": ("hermes", "qwen3"),
    "qwen3_5_nothink": ("qwen3_coder", "qwen3"),
    "qwen3_5_think": ("qwen3_coder", "qwen3"),
    "qwen3_6": ("qwen3_coder", "qwen3"),
    "qwen3_8": ("qwen3_coder", "qwen3"),
    "qwen3_instruct_2507": ("hermes", None),
    "qwen3_vl": ("hermes", None),
    "smolvlm": NONE,
}
TRL = find_packaged("trl", "chat_templates")
VLLM = find_packaged("vllm", "transformers_utils/chat_templates")


THINK = "{{ '<think>' if thinks else '' }}{{ '</think>' }}"


def probe(
    source: str, special_tokens: dict[str, str], tokens: frozenset[str] = frozenset()
) -> Evidence:
    return probe_loaded(LoadedTemplate(source), source, special_tokens, tokens)


def detect(source: str) -> tuple[str | None, str | None]:
    evidence = probe(source, {"bos_token": "<s>", "eos_token": "</s>"})
    tools = detect_tool_calls(evidence).format
    reasoning = detect_reasoning(evidence, tools).format
    return tools.name if tools else None, reasoning.name if reasoning else None


def test_every_format_with_calls_has_a_template() -> None:
    formats = {entry.tools.name for entry in known_formats().values() if entry.tools}
    assert formats == TURNS.keys()


@pytest.mark.parametrize("name", TURNS)
def test_template_of_each_format(name) -> None:
    assert detect(build_template(name))[0] == name


@pytest.mark.skipif(not TRL, reason="trl, which ships templates, is not installed")
@pytest.mark.parametrize("name", PUBLIC)
def test_public_template(name) -> None:
    assert detect(TRL[name].read_text(encoding="utf-8")) == PUBLIC[name]


@pytest.mark.skipif(not TRL, reason="trl, which ships templates, is not installed")
def test_at_least_25_public_templates_have_tools() -> None:
    assert len([name for name, found in PUBLIC.items() if found[0]]) >= 25


@pytest.mark.skipif(not VLLM, reason="vLLM is not installed")
@pytest.mark.parametrize("name", VLLM)
def test_templates_that_vllm_ships(name) -> None:
    # All but one are of models without tools; that one is built on Qwen 3.
    expected = ("hermes", "qwen3") if name == "template_minicpmv45" else NONE
    assert detect(VLLM[name].read_text(encoding="utf-8")) == expected


@pytest.mark.parametrize("name", TURNS)
def test_a_template_without_its_calls_and_tools_has_no_parser(name) -> None:
    source = build_template(name).replace("m.tool_calls", "false").replace("tools", "no_one")
    assert detect_tool_calls(probe(source, {})).format is None


def test_every_reader_is_a_candidate_and_a_lax_one_comes_last() -> None:
    detection = detect_tool_calls(probe(build_template("hermes"), {}))
    names = {candidate.name for candidate in detection.candidates}
    assert {"hermes", "xlam", "granite"} <= names
    assert detection.format is tool_format("hermes")
    assert "<tool_call>" in detection.reason


def test_calls_in_no_format_are_shown() -> None:
    source = build_template("hermes").replace("<tool_call>", "<my_call>")
    detection = detect_tool_calls(probe(source, {}))
    assert detection.format is None
    assert "<my_call>" in detection.reason
    assert PROBE_NAME in detection.reason


def test_equally_good_formats_are_refused() -> None:
    evidence = Evidence(template=THINK, prompts=("<think>",), switches={"thinking": True})
    detection = detect_reasoning(evidence)
    assert detection.format is None
    assert detection.reason == "deepseek_r1, holo2 fit equally well"


@pytest.mark.parametrize(
    ("tokens", "expected"),
    [
        (("[TOOL_CALLS]", "[ARGS]", "[CALL_ID]"), "mistral"),
        (("<|tool_call_start|>", "<|tool_call_end|>"), "lfm2"),
        (("<s>", "</s>"), None),
    ],
)
def test_tokens_decide_without_a_template(tokens, expected) -> None:
    detection = detect_tool_calls(Evidence(tokens=frozenset(tokens)))
    assert (detection.format and detection.format.name) == expected


def test_markers_with_a_suffix_of_the_checkpoint() -> None:
    suffixed = build_template("hy_v3")
    names = ("tool_calls", "tool_call", "tool_sep", "arg_key", "arg_value")
    tokens = []
    for name in names:
        for marker in (f"<{name}>", f"</{name}>"):
            suffixed = suffixed.replace(marker, f"{marker[:-1]}:opensource>")
            tokens.append(f"{marker[:-1]}:opensource>")
    evidence = probe(suffixed, {}, frozenset(tokens))
    assert detect_tool_calls(evidence).format is tool_format("hy_v3")


@pytest.mark.parametrize(
    ("evidence", "tools", "expected"),
    [
        # The prompt opens reasoning, and nothing switches it off.
        (Evidence(template=THINK, prompts=("<think>\n",)), None, "deepseek_r1"),
        # A variable that is on by default.
        (
            Evidence(template=THINK, prompts=("",), switches={"enable_thinking": True}),
            None,
            "qwen3",
        ),
        # A variable that is off by default, and a prompt that shows neither.
        (Evidence(template=THINK, prompts=("",), switches={"thinking": False}), None, None),
        # Markers in the history alone: the model may not reason.
        (Evidence(template=THINK, prompts=("",)), None, None),
        # The format of the calls has reasoning of its own.
        (Evidence(template=THINK, prompts=("",)), "glm45", "glm45"),
        (Evidence(template=THINK, prompts=("<think>",)), "minimax_m2", "minimax_m2"),
        # That of DeepSeek V3 reasons on request, which R1's template does not know.
        (Evidence(template=THINK, prompts=("<think>\n",)), "deepseek_v3", "deepseek_r1"),
        # Its calls have a format of their own since V3.1; what switches it has more names.
        (
            Evidence(
                template=THINK + build_template("deepseek_v31"),
                prompts=("<think>",),
                switches={"thinking": True, "enable_thinking": True},
            ),
            "deepseek_v31",
            "deepseek_v3",
        ),
        (Evidence(template="{{ messages }}"), "glm45", None),
    ],
)
def test_reasoning(evidence, tools, expected) -> None:
    detection = detect_reasoning(evidence, tool_format(tools) if tools else None)
    assert detection.format is (reasoning_format(expected) if expected else None)
    if expected is None and "</think>" in evidence.template:
        assert {"deepseek_r1", "qwen3"} <= {candidate.name for candidate in detection.candidates}


@pytest.mark.parametrize(
    ("turn", "reads"),
    [
        ('<tool_call>{"name": "find_weather", "arguments": {"city": "Paris", "days": 3}}', True),
        ('<tool_call>{"name": "find_weather", "arguments": {"city": "Paris"}}', False),
        ("find_weather", False),
    ],
)
def test_reads_probe(turn, reads) -> None:
    hermes = tool_format("hermes")
    assert hermes is not None
    assert reads_probe(probe_table(hermes), f"{turn}</tool_call>" if reads else turn) is reads
