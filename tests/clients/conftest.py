"""The stack that all clients ask, and the clients.

The tests run in .venv-clients (`make test-clients`); elsewhere they are not collected.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PYTHON = ROOT / ".venv" / "bin" / "python"

# litellm would fetch its table of prices from the network.
os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"

collect_ignore_glob = [] if importlib.util.find_spec("smolagents") else ["test_*.py"]


@pytest.fixture(scope="session")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Return the URL of a frontend with the transcripts of these tests."""
    folder = tmp_path_factory.mktemp("stack")
    command: list[str | Path] = [PYTHON, "-m", "tests.clients.stack", folder]
    with subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as stack:
        assert stack.stdin is not None
        assert stack.stdout is not None
        found = stack.stdout.readline().strip()
        assert found, "the stack did not start; its error stands above"
        yield found
        stack.stdin.close()
