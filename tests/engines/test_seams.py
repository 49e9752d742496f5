"""Each seam of the workers and of the offline back ends, broken on purpose.

Tests of tests/engines/frontends do the same for the frontend's.
"""

from __future__ import annotations

import importlib
import subprocess
import sys
from typing import Any

import msgspec
import pytest
from backedge.base.errors import SetupError, exiting
from backedge.base.seams import Seam, check_seams
from backedge.engines.dynamo import seams as dynamo
from backedge.engines.sglang import worker as sglang
from backedge.engines.transformers import seams as transformers
from backedge.engines.trtllm import worker as trtllm
from backedge.engines.vllm import worker as vllm
from backedge.worker.engine_support import EngineSupport

from tests.engines.broken_seams import BREAKS, Break, change, is_checked
from tests.engines.frontends import test_seams as frontends
from tests.support import TINY_MODEL
from tests.test_seams import ROWS

ENGINES: list[EngineSupport] = [vllm.ENGINE, sglang.ENGINE, trtllm.ENGINE]
OF_ENGINES = [
    (engine, row, how)
    for engine in ENGINES
    for row in engine.seams
    for how in BREAKS
    if is_checked(row, how)
]
OTHERS = [
    (table.PACKAGES, row, how)
    for table in (dynamo, transformers)
    for row in table.WORKER
    for how in BREAKS
    if is_checked(row, how)
]


def name(value: object) -> str:
    return getattr(value, "name", getattr(value, "__name__", ""))


@pytest.mark.parametrize(("engine", "row", "how"), OF_ENGINES, ids=name)
def test_an_engine_that_does_not_fit(
    engine: EngineSupport,
    row: Seam,
    how: Break,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    alone = msgspec.structs.replace(engine, seams=(row,))
    assert alone.check_seams(row.role) == frozenset()
    how(row, monkeypatch)
    check = exiting()(alone.check_seams)
    if row.feature:
        assert check(row.role) == {row.feature}
        [record] = caplog.records
        said = record.message
        assert said.startswith(f"{row.feature} is off: ")
    else:
        with pytest.raises(SystemExit) as ended:
            check(row.role)
        said = str(ended.value)
        assert said.startswith("Backedge: ")
        assert "docs/compatibility.md" in said
    assert f", without which {row.without} (found ai-dynamo " in said
    assert f", {engine.distribution} " in said
    assert row.module in said
    assert "\n" not in said


@pytest.mark.parametrize(("packages", "row", "how"), OTHERS, ids=name)
def test_what_is_alike_for_all_engines_does_not_fit(
    packages: tuple[str, ...], row: Seam, how: Break, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert check_seams([row], packages) == frozenset()
    how(row, monkeypatch)
    if row.feature:
        assert check_seams([row], packages) == {row.feature}
        return
    with pytest.raises(SetupError, match=rf"without which .* \(found {packages[0]} \d"):
        check_seams([row], packages)


@pytest.mark.parametrize("support", [vllm, sglang])
def test_tokens_come_one_by_one_without_groups(support: Any) -> None:
    engine: Any = None  # it is not touched
    handle = (
        vllm.VllmRequestHandle(engine, "r", 1, groups=False)
        if support is vllm
        else sglang.SglangRequestHandle(engine, 1, bool, groups=False)
    )
    handle.set_stream_interval(0, 20)


START = (
    "import runpy, sys; from {module} import __name__ as _; import {module} as owner;"
    "del owner.{name}; sys.argv = ['dynamo.vllm', '--model', {model!r}, '--vllm-processing'];"
    "runpy.run_module('dynamo.vllm', run_name='__main__')"
)


@pytest.mark.parametrize(
    ("module", "name", "cost"),
    [
        ("dynamo.vllm.args", "_build_config", "Backedge's flags are not seen"),
        ("dynamo.vllm.main", "setup_metrics_collection", "/metrics lacks Backedge's"),
    ],
)
def test_a_process_says_one_sentence_and_ends(module: str, name: str, cost: str) -> None:
    program = START.format(module=module, name=name, model=str(TINY_MODEL))
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith(f"Backedge: {module} has no {name}, without which ")
    assert cost in last
    assert "(found ai-dynamo 1." in last


def test_every_row_is_broken_in_every_way() -> None:
    of_frontend = [*frontends.DYNAMO, *(row for _, row in frontends.OF_ENGINES)]
    broken = {
        *((row.role, row.name, how) for _, row, how in (*OF_ENGINES, *OTHERS)),
        *((row.role, row.name, how) for row in of_frontend for how in BREAKS),
    }
    assert broken >= {
        (row.role, row.name, how) for row in ROWS for how in BREAKS if is_checked(row, how)
    }
    # Of these rows only the existence matters.
    assert {row.kind for row in ROWS if not is_checked(row, change)} <= {"read", "replaced"}


def test_tables_name_their_packages() -> None:
    for engine in ENGINES:
        table = importlib.import_module(f"backedge.engines.{engine.name}.seams")
        assert ("ai-dynamo", engine.distribution) == table.PACKAGES
        assert table.VERSIONS is engine.versions
