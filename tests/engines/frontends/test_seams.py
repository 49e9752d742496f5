"""Each seam of the frontend, broken on purpose: one sentence, or its feature alone is off."""

from __future__ import annotations

import argparse
import asyncio
import gc
import importlib
from collections.abc import Iterator
from typing import Any

import pytest
from backedge.base.engines import has_engine, load_engine_module
from backedge.frontend import main
from backedge.frontend.factory import EngineFactory
from backedge.frontend.flags import FrontendFlags
from backedge.frontend.model_builder import TABLES, load_builder
from backedge.tokenization.tokenizer_selection import Backend, TokenizerSelection

from tests.engines.broken_seams import BREAKS, Break, Row, is_checked, list_rows
from tests.engines.frontends.all_edges import CONFIG
from tests.frontend.doubles import Card, Instance

FLAGS = argparse.Namespace(tool_call_parser=None, reasoning_parser=None, chat_template=None)


def rows(folder: str) -> list[Row]:
    table = importlib.import_module(f"backedge.engines.{folder}.seams")
    return list_rows({"frontend": table.FRONTEND})


DYNAMO = rows("dynamo")
FOLDERS: dict[Backend, tuple[str, ...]] = {"vllm": TABLES["vllm"], "sglang": ("sglang",)}
OF_ENGINES: list[tuple[Backend, Row]] = [
    (backend, row)
    for backend, folders in FOLDERS.items()
    if all(map(has_engine, folders))
    for folder in folders
    for row in rows(folder)
]


@pytest.fixture(autouse=True)
def _unloaded() -> Iterator[None]:
    load_builder.cache_clear()
    yield
    load_builder.cache_clear()
    gc.unfreeze()


@pytest.mark.parametrize("how", BREAKS)
@pytest.mark.parametrize("row", DYNAMO, ids=lambda row: row.name)
def test_a_dynamo_that_does_not_fit_ends_the_process(
    row: Row, how: Break, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    if not is_checked(row.use, how):
        return
    how(row.use, monkeypatch)
    if row.seam.feature:
        assert main.check_dynamo() == {row.seam.feature}
        assert f"{row.seam.feature} is off: {row.use.module}" in caplog.text
        return
    with pytest.raises(SystemExit, match=r"without which .* \(found ai-dynamo 1") as ended:
        main.check_dynamo()
    assert "\n" not in str(ended.value)


def discover(backend: Backend) -> None:
    """Discover a model that this back end is to serve."""

    async def run() -> None:
        engine: Any = None
        factory = EngineFactory(
            CONFIG, FLAGS, FrontendFlags(TokenizerSelection(backend), "auto", [])
        )
        assert await factory.chat_engine_factory(Instance(), Card(), engine)

    asyncio.run(run())


@pytest.mark.parametrize("how", BREAKS)
@pytest.mark.parametrize(
    ("backend", "row"), OF_ENGINES, ids=lambda value: getattr(value, "name", value)
)
def test_a_model_of_an_engine_that_does_not_fit_says_why(
    backend: Backend,
    row: Row,
    how: Break,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    if not is_checked(row.use, how):
        return
    load_builder(backend)  # imports the engine
    load_builder.cache_clear()
    how(row.use, monkeypatch)
    if row.seam.feature:
        assert load_builder(backend).features_off == {row.seam.feature}
        return
    discover(backend)
    assert "model tiny is not served: " in caplog.text
    assert ", without which " in caplog.text
    assert "Traceback" not in caplog.text


@pytest.mark.parametrize("error", [ImportError, AttributeError])
def test_an_engine_that_cannot_be_imported_is_the_reason(
    error: type[Exception], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(folder: str, module: str) -> Any:
        if module == "frontend":
            raise error("no such name")
        return load_engine_module(folder, module)

    monkeypatch.setattr("backedge.frontend.model_builder.load_engine_module", fail)
    backend = OF_ENGINES[0][0]
    discover(backend)
    assert f"model tiny is not served: the tokenizer back end {backend!r} cannot be" in caplog.text
    assert "imported (no such name); found ai-dynamo 1" in caplog.text


@pytest.mark.parametrize("error", [AttributeError, TypeError, OSError, ValueError])
def test_a_difference_that_no_row_knows_is_the_reason(
    error: type[Exception], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def fail(*_: object) -> None:
        raise error("no such name")

    monkeypatch.setattr(EngineFactory, "_build_answer", fail)
    discover("huggingface")
    assert "tiny is not served: its files or the installed versions do not fit (" in caplog.text
