"""The command line of vLLM's or SGLang's own server, without either."""

from __future__ import annotations

import pytest
from backedge.base.errors import SetupError
from backedge.cli.doctor.model import read_model
from backedge.cli.doctor.server_command import check_server, find_server, parse_server_command

from tests.support import TINY_MODEL

TINY = read_model(str(TINY_MODEL), None, None)
VLLM = ("vllm", "serve", str(TINY_MODEL), "--enable-auto-tool-choice")
SGLANG = ("python", "-m", "sglang.launch_server", "--model-path", str(TINY_MODEL))


def check(*words: str) -> list[tuple[str, str]]:
    """Return the findings: severity, and message with fix."""
    server = find_server(words)
    assert server is not None
    command = parse_server_command(*server)
    assert command.model == str(TINY_MODEL)
    return [(each.severity, f"{each.message} | {each.fix}") for each in check_server(command, TINY)]


@pytest.mark.parametrize("command", [VLLM, SGLANG], ids=["vllm", "sglang"])
@pytest.mark.parametrize(
    ("calls", "reasoning"), [("backedge", "backedge"), ("backedge_hermes", "backedge_qwen3")]
)
def test_parsers_that_fit(command: tuple[str, ...], calls: str, reasoning: str) -> None:
    found = check(*command, "--tool-call-parser", calls, "--reasoning-parser", reasoning)
    assert {severity for severity, _ in found} == {"ok"}
    assert len(found) == 2


MISTAKES = [
    (("--vllm-processing",), "error", "--vllm-processing: these flags belong to `python -m dynamo"),
    (("--postprocess-latency=lowest",), "error", "--postprocess-latency=lowest: these flags"),
    (
        ("--tool-call-parser", "backedge_qwen3_coder"),
        "error",
        "--tool-call-parser backedge_qwen3_coder does not fit",
    ),
    (("--tool-call-parser", "backedge_hermse"), "error", "did you mean backedge_hermes"),
    (
        ("--tool-call-parser", "hermes"),
        "note",
        "not one of Backedge's parsers | --tool-call",
    ),
    (
        ("--tool-call-parser", "backedge", "--reasoning-parser", "qwen3"),
        "error",
        "one of the two parsers is Backedge's and the other vLLM's",
    ),
    (("--tool-call-parser", "hermes"), "note", "| let both flags name Backedge's"),
    (("--tool_call_parser=backedge_hermse",), "error", "did you mean backedge_hermes"),
    (("--postprocess_record=x",), "error", "--postprocess-record=x: these flags"),
    (("--config", "more.yaml"), "note", "those in more.yaml are not checked"),
    ((), "warning", "| --tool-call-parser backedge_hermes"),
    (("--reasoning-parser", "backedge_kimi"), "error", "--reasoning-parser backedge_qwen3"),
]


@pytest.mark.parametrize(("flags", "severity", "part"), MISTAKES)
def test_mistakes_are_found(flags: tuple[str, ...], severity: str, part: str) -> None:
    found = check(*VLLM, *flags)
    assert any(severity == kind and part in text for kind, text in found), found


def test_vllm_needs_its_own_flag_for_calls() -> None:
    found = check("vllm", "serve", str(TINY_MODEL), "--tool-call-parser", "backedge")
    assert ("error", "vLLM ignores --tool-call-parser without --enable-auto-tool-choice") in [
        (severity, text.partition(" | ")[0]) for severity, text in found
    ]


def test_a_command_without_a_model() -> None:
    with pytest.raises(SetupError, match="no model"):
        parse_server_command("vllm", ["--port", "1"])


def test_other_commands_are_no_servers() -> None:
    assert find_server(["python", "-m", "dynamo.vllm", "--model", "m"]) is None
