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
from backedge.base.seams import check_seams
from backedge.engines.dynamo import seams as dynamo
from backedge.engines.sglang import worker as sglang
from backedge.engines.transformers import seams as transformers
from backedge.engines.trtllm import worker as trtllm
from backedge.engines.vllm import worker as vllm
from backedge.worker import engine_support
from backedge.worker.engine_support import EngineSupport
from backedge.worker.flags import WorkerSettings

from tests.engines.broken_seams import BREAKS, Break, Row, change, delete, is_checked, list_rows
from tests.engines.frontends import test_seams as frontends
from tests.engines.sglang.test_worker import config as sglang_config
from tests.engines.trtllm.test_worker import config as trtllm_config
from tests.engines.vllm.test_worker import config as vllm_config
from tests.support import TINY_MODEL
from tests.test_seams import ROWS

ENGINES: list[EngineSupport] = [vllm.ENGINE, sglang.ENGINE, trtllm.ENGINE]
OF_ENGINES = [
    (engine, row, how)
    for engine in ENGINES
    for row in list_rows(engine.seams)
    for how in BREAKS
    if row.role != "frontend" and is_checked(row.use, how)
]
OTHERS = [
    (table.PACKAGES, row, how)
    for table in (dynamo, transformers)
    for row in list_rows(table.SEAMS)
    for how in BREAKS
    if row.role != "frontend" and is_checked(row.use, how)
]


def name(value: object) -> str:
    return getattr(value, "name", getattr(value, "__name__", ""))


@pytest.mark.parametrize(("engine", "row", "how"), OF_ENGINES, ids=name)
def test_an_engine_that_does_not_fit(
    engine: EngineSupport,
    row: Row,
    how: Break,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    alone = msgspec.structs.replace(engine, seams={row.role: [row.alone()]})
    assert alone.check_seams(row.role) == frozenset()
    how(row.use, monkeypatch)
    check = exiting()(alone.check_seams)
    feature = row.seam.feature
    if feature:
        assert check(row.role) == {feature}
        [record] = caplog.records
        said = record.message
        assert said.startswith(f"{feature} is off: ")
    else:
        with pytest.raises(SystemExit) as ended:
            check(row.role)
        said = str(ended.value)
        assert said.startswith("Backedge: ")
        assert "docs/compatibility.md" in said
    assert f", without which {row.seam.without} (found ai-dynamo " in said
    assert f", {engine.distribution} " in said
    assert row.use.module in said
    assert "\n" not in said


@pytest.mark.parametrize(("packages", "row", "how"), OTHERS, ids=name)
def test_what_is_alike_for_all_engines_does_not_fit(
    packages: tuple[str, ...], row: Row, how: Break, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert check_seams([row.alone()], packages) == frozenset()
    how(row.use, monkeypatch)
    if feature := row.seam.feature:
        assert check_seams([row.alone()], packages) == {feature}
        return
    with pytest.raises(SetupError, match=rf"without which .* \(found {packages[0]} \d"):
        check_seams([row.alone()], packages)


OPTIONAL = [
    (adapter, config, row)
    for adapter, config in ((vllm, vllm_config), (sglang, sglang_config), (trtllm, trtllm_config))
    for row in list_rows({"worker": adapter.ENGINE.seams["worker"]})
    if row.seam.feature and row.use.kind == "replaced"
]


@pytest.mark.parametrize(("adapter", "config", "row"), OPTIONAL, ids=name)
def test_a_worker_starts_without_a_function_of_an_optional_feature(
    adapter: Any, config: Any, row: Row, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[str] = []
    monkeypatch.setattr(engine_support, "replace", lambda use, _: found.append(use.name))
    monkeypatch.setattr(adapter.WORKER, "build", lambda _: None)
    adapter.WORKER.enable(config(), WorkerSettings())
    assert row.name in found
    expected = [replaced for replaced in found if replaced != row.name]
    found.clear()
    delete(row.use, monkeypatch)
    adapter.WORKER.enable(config(), WorkerSettings())
    assert found == expected


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
        ("dynamo.vllm.main", "setup_vllm_engine", "tokenizer and parsers are not tried"),
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
        (row.role, row.name, how) for row in ROWS for how in BREAKS if is_checked(row.use, how)
    }
    # Of these rows only the existence matters.
    by_name = {row.use.kind for row in ROWS if not is_checked(row.use, change)}
    assert by_name <= {"read", "replaced"}


def test_tables_name_their_packages() -> None:
    for engine in ENGINES:
        table = importlib.import_module(f"backedge.engines.{engine.name}.seams")
        assert ("ai-dynamo", engine.distribution) == table.PACKAGES
        assert table.VERSIONS is engine.versions
