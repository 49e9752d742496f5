"""Two checkouts' benchmarks in turn, and the ratios of their figures."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import beside
from benchmarks.beside import Checkout, Row, compare, main, read_figures

REPORT = {
    "any title": [
        {"case": {"system": "ours", "tokens": 600}, "median": {"us": 4.0, "ms": 2.0}},
        {"system": "ours", "by_length": {"1000": 3.0, "4000": None}, "wrong": ""},
        {"system": "ours", "by_size": {"400": "1.58", "4000": ">575"}},
    ],
    "settings": {"rounds": 3},
}
BENCHMARK = """
import json, sys
from backedge import figures
print(json.dumps({"costs": [{"case": sys.argv[2], "us": figures.US}]}))
"""


def write_checkout(root: Path, us: float) -> Path:
    (root / "benchmarks").mkdir(parents=True)
    (root / "benchmarks" / "costs.py").write_text(BENCHMARK)
    (root / "package").mkdir()
    (root / "package" / "figures.py").write_text(f"US = {us}\n")
    return root


def test_a_figure_is_known_by_its_case_and_name() -> None:
    assert dict(read_figures(REPORT)) == {
        ("ours, 600", "median.us"): 4.0,
        ("ours, 600", "median.ms"): 2.0,
        ("ours", "by_length.1000"): 3.0,
        ("ours, >575", "by_size.400"): 1.58,
    }


def test_a_ratio_is_the_median_of_the_rounds() -> None:
    us, ms = ("case", "us"), ("case", "ms")
    rounds = [({us: 2.0}, {us: 1.0, ms: 1.0}), ({us: 8.0}, {us: 2.0}), ({us: 3.0}, {us: 1.0})]
    assert list(compare(rounds)) == [Row("case", "us", 3.0, 3.0)]


def test_each_checkout_runs_its_own_package(tmp_path: Path) -> None:
    packages = [tmp_path / name for name in ("ours", "theirs")]
    found = []
    for us, folder in zip((1.5, 3.0), packages, strict=True):
        folder.mkdir()
        root = write_checkout(tmp_path / str(us), us)
        found.append(Checkout(root, folder).measure("costs", ["long"]))
    assert found == [{("long", "us"): 1.5}, {("long", "us"): 3.0}]


def test_checkouts_without_a_figure_in_common_are_an_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(beside, "run_rounds", lambda *_: [({("ours", "us"): 1.0}, {})])
    with pytest.raises(SystemExit, match="2"):
        main(["other", "parsers"])
    assert "parsers: the checkouts have no figure in common" in capsys.readouterr().err


def test_a_benchmark_that_fails_is_an_error(tmp_path: Path) -> None:
    root = write_checkout(tmp_path, 1.0)
    with pytest.raises(RuntimeError, match="the benchmark fails"):
        main([str(root), "no_such_benchmark", "--rounds", "1"])
