"""How `tools/gpu_bench` brings packages to a machine without a network."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools import gpu_bench
from tools.gpu_bench import LOCK, find_missing, join, split


@pytest.mark.parametrize("size", [1, 9, 10, 11, 35, 1000])
def test_a_file_in_parts_is_whole_again(
    size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpu_bench, "PART_BYTES", 10)
    whole = bytes(number % 251 for number in range(size))
    wheel = tmp_path / "one-1.0-py3-none-any.whl"
    wheel.write_bytes(whole)
    split(wheel)
    parts = sorted(tmp_path.iterdir())
    assert not wheel.exists()
    assert all(part.stat().st_size <= 10 for part in parts)
    joined = tmp_path / "joined"
    joined.mkdir()
    join(tmp_path / f"{wheel.name}.0", joined)
    assert (joined / wheel.name).read_bytes() == whole


def test_only_missing_packages_are_installed() -> None:
    lock = (
        "# made by a tool\npytest==0.1 \\\n    --hash=sha256:ab\n"
        "no-such-package==1.0 \\\n    --hash=sha256:cd \\\n    --hash=sha256:ef\n"
    )
    (found,) = find_missing(lock)
    assert found.startswith("no-such-package==1.0 ")
    assert found.count("--hash") == 2


def test_the_lock_has_dynamo() -> None:
    lock = LOCK.read_text(encoding="utf-8")
    assert "\nai-dynamo-runtime==" in lock
    assert "\nmsgspec==" in lock


def test_an_unknown_flag_of_prepare_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SystemExit):
        gpu_bench.main(["prepare", str(tmp_path), "--nosuch"])
