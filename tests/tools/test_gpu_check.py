"""The table of the tests on a GPU, without running them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools import gpu_check
from tools.gpu_check import ENGINES, Outcome, describe, read_report
from tools.stack import ROOT

REPORT = """<?xml version="1.0"?><testsuites>
<testsuite errors="1" failures="2" skipped="3" tests="10" time="90.5"/>
<testsuite errors="0" failures="0" skipped="0" tests="5" time="9.5"/>
</testsuites>"""


def test_a_report_is_summed() -> None:
    assert read_report(REPORT) == Outcome(passed=9, failed=3, skipped=3, seconds=100.0)


@pytest.mark.parametrize(
    ("version", "outcome", "row"),
    [
        ("1.3.0", Outcome(9, 3, 3, 90.0), "| trtllm | 1.3.0 | 9 | 3 | 3 | 1.5 |"),
        (None, None, "| trtllm | not installed | | | | |"),
    ],
)
def test_rows(version: str | None, outcome: Outcome | None, row: str) -> None:
    assert describe("trtllm", version, outcome) == row


def test_every_module_exists() -> None:
    modules = [module for _, found in ENGINES.values() for module in found]
    assert all((ROOT / "tests" / "e2e" / f"{module}.py").is_file() for module in modules)


def test_without_a_gpu_it_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(SystemExit, match="shows no GPU"):
        gpu_check.main(["vllm"])


@pytest.mark.parametrize(("failed", "status"), [(0, False), (1, True)])
def test_the_table_of_what_is_installed(
    failed: int,
    status: bool,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    smi = tmp_path / "nvidia-smi"
    smi.write_text("#!/bin/sh\necho 'A GPU, 580.1'\n")
    smi.chmod(0o700)
    monkeypatch.setenv("PATH", str(tmp_path))
    versions = {"vllm": "0.31.0", "ai-dynamo": "1.6.1"}
    monkeypatch.setattr(gpu_check, "read_version", versions.get)
    monkeypatch.setattr(gpu_check, "run", lambda modules: Outcome(len(modules), failed, 0, 60))
    with pytest.raises(SystemExit) as ended:
        gpu_check.main(["vllm", "trtllm"])
    assert ended.value.code is status
    first, _, *table = capsys.readouterr().out.splitlines()
    assert first.startswith("A GPU, 580.1; ai-dynamo 1.6.1; Python 3.")
    assert table[2:] == [
        f"| vllm | 0.31.0 | {len(ENGINES['vllm'][1])} | {failed} | 0 | 1.0 |",
        "| trtllm | not installed | | | | |",
    ]
