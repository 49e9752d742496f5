"""What docs/why-backedge.md says of the parsers of Dynamo's Rust frontend: which stream a call's
arguments, by default and with DYN_PARSER_VERSION=2."""

from __future__ import annotations

import json
from importlib.metadata import version
from pathlib import Path

import pytest
from backedge.parsers.parser_lookup import tool_format

from tests.e2e.client import HTTP
from tests.e2e.parsers_worker import PLAIN, PROMPT
from tests.e2e.test_stock_parsers import is_served
from tests.parsers.families import FAMILIES
from tests.parsers.families.family import TOOLS, Invocation
from tools.stack import ROOT, STOCK_FRONTEND, Stack

CALL: Invocation = ("write", {"path": "a.txt", "text": "one word and another, " * 10})
STREAMED = frozenset({"qwen3_coder"})
WHOLE = frozenset({"gemma4", "glm47", "kimi_k2", "deepseek_v4"})
ABSENT = frozenset({"minimax_m2"})
NAMES = STREAMED | WHOLE | ABSENT


def count_fragments(url: str, parser: str) -> int:
    """Return in how many chunks a call's arguments arrive, one token at a time."""
    found = tool_format(parser)
    assert found is not None
    write = FAMILIES[found.name].write
    assert write is not None
    text = write("", [CALL]).encode().hex()
    body = {
        "model": parser,
        "messages": [{"role": "user", "content": PROMPT.format(pace=PLAIN, text=text)}],
        "stream": True,
        "tools": list(TOOLS),
    }
    lines = HTTP.post(f"{url}/v1/chat/completions", json=body).text.splitlines()
    chunks = [json.loads(line[6:]) for line in lines if line.startswith("data: {")]
    return sum(
        bool(call["function"].get("arguments"))
        for chunk in chunks
        for choice in chunk["choices"]
        for call in choice["delta"].get("tool_calls") or []
    )


@pytest.mark.parametrize("setting", [None, "2"])
def test_which_arguments_are_streamed(setting: str | None, tmp_path: Path) -> None:
    models = {name: f"{name}:{name}:" for name in sorted(NAMES)}
    chosen = {} if setting is None else {"DYN_PARSER_VERSION": setting}
    with Stack(tmp_path, PYTHONPATH=str(ROOT), **chosen) as stack:
        worker = stack.run_worker(("-m", "tests.e2e.parsers_worker", *models.values()), wait=False)
        frontend = stack.frontend(command=STOCK_FRONTEND, wait=False)
        served = {name for name, model in models.items() if is_served(worker, frontend, model)}
        found = {name: count_fragments(frontend.url, name) for name in sorted(served)}
    is_old = version("ai-dynamo").startswith("1.6.")
    assert served == (NAMES if setting is None else NAMES - ABSENT)
    assert {name for name, fragments in found.items() if fragments > 1} == (
        set() if is_old and setting is None else STREAMED
    )
