"""Wheel and sdist: what is in them, and that they work in empty environments."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

pytest.importorskip("build", reason="the checks of a release need the extra `release`")
pytest.importorskip("twine", reason="the checks of a release need the extra `release`")
from tests.conftest import MISSING_ENGINES
from tools import release_check
from tools.release_check import ReleaseError

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Return sdist and wheel."""
    if MISSING_ENGINES:
        pytest.skip("pyproject.toml names the folders of all engines")
    return release_check.build(tmp_path_factory.mktemp("dist"))


def test_contents_and_metadata(built: tuple[Path, Path]) -> None:
    release_check.check_contents(*built)
    release_check.check_metadata(built)
    in_sdist = release_check.list_contents(built[0])
    assert {"CHANGELOG.md", "SECURITY.md", "docs/requests.md", "pyproject.toml"} <= in_sdist


def test_a_missing_data_file_is_found(built: tuple[Path, Path]) -> None:
    in_wheel = release_check.list_contents(built[1])
    assert release_check.find_missing(in_wheel) == set()
    lacks = in_wheel - {"backedge/examples/transcripts/text.jsonl"}
    assert release_check.find_missing(lacks) == {"examples/transcripts/text.jsonl"}


def test_every_folder_with_modules_is_a_package() -> None:
    """A module in a folder that pyproject.toml does not name is missing from the wheel."""
    folders = set(release_check.read_packages().values())
    tops = {folder.partition("/")[0] for folder in folders} - {"examples"}
    modules = {
        str(Path(name).parent)
        for name in release_check.list_tracked()
        if name.endswith(".py") and name.partition("/")[0] in tops
    }
    assert modules <= folders


@pytest.mark.parametrize("version", release_check.PYTHONS)
def test_the_wheel_works_in_an_empty_environment(
    built: tuple[Path, Path], tmp_path: Path, version: str
) -> None:
    if (python := release_check.find_python(version)) is None:
        pytest.skip(f"no Python {version} here")
    try:
        printed = release_check.install_and_try(python, built[1], tmp_path / "venv")
    except ReleaseError as error:
        if "No matching distribution" in str(error) or "Connection" in str(error):
            pytest.skip(f"the dependencies cannot be had here: {error}")
        raise
    assert re.fullmatch(r"\S+: 1\d transcripts are correct, \d+ subcommands start", printed)


def test_the_versions_that_are_tried_are_those_that_are_allowed() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["requires-python"] == f">={release_check.PYTHONS[0]}"
    named = [line.rpartition(" :: ")[2] for line in project["classifiers"]]
    assert [name for name in named if re.fullmatch(r"3\.\d+", name)] == [*release_check.PYTHONS]


def test_the_change_log_begins_with_the_version() -> None:
    release_check.check_changelog()
