"""What two engines need alike is in worker/engine_worker.py, not in their adapters."""

from itertools import combinations
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "engines"
ENGINES = [name for name in ("sglang", "trtllm", "vllm") if (FOLDER / name).is_dir()]
SHARED_LINES = 6
# Lines that many functions begin or end with say nothing of what they do.
THIN = ("import ", "from ", "#", ")", "]", "}")


def runs(engine: str) -> set[tuple[str, ...]]:
    """Return all runs of so many lines of code."""
    lines = [line.strip() for line in (FOLDER / engine / "worker.py").read_text().splitlines()]
    code = [line for line in lines if line and not line.startswith(THIN)]
    return set(zip(*(code[start:] for start in range(SHARED_LINES)), strict=False))


@pytest.mark.parametrize(("first", "second"), [*combinations(ENGINES, 2)])
def test_adapters_share_no_lines(first: str, second: str) -> None:
    assert runs(first)
    assert runs(first).isdisjoint(runs(second))
