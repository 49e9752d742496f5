"""Dynamo's HTTP layer reads content again where a card names its parser: it must find no call."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tests.e2e.client import HTTP
from tests.e2e.parsers_worker import PLAIN, PROMPT
from tests.parsers.families.family import TOOLS
from tools.stack import HUGGINGFACE_FRONTEND, ROOT, Stack

DSML = "<｜DSML｜function_calls>\n<｜DSML｜invoke name="
# By Dynamo's parser: calls that are open, rejected or malformed.
OUTPUTS = {
    "hermes": (
        '<tool_call>\n{"name": "write", "arguments": {"path": "a b',
        '<tool_call>\n{"name": "write", "arguments": ["a b"]}\n</tool_call>',
        '<tool_call>\n{"name": "write", "arguments": {"path": , "text": "a b"}}\n</tool_call>',
    ),
    "llama3_json": (
        '{"name": "write", "parameters": {"path": "a b',
        '{"name": "write", "parameters": ["a b"]}',
        '{"name": "write", "parameters": {"path": , "text": "a b"}}',
    ),
    "pythonic": (
        '[write(path="a b',
        '[[write(path="a b")]',
        '[write(path=="a b", text="c")]',
    ),
    "deepseek_v3_2": (
        f'{DSML}"write">\n<｜DSML｜parameter name="path" string="true">a b',
        f"{DSML}write a b",
        f'{DSML}"write">\n<｜DSML｜parameter name= string="true">a b</｜DSML｜parameter>\n',
    ),
}


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    models = [f"{name}:{name}:" for name in OUTPUTS]
    with Stack(tmp_path_factory.mktemp("again"), PYTHONPATH=str(ROOT)) as stack:
        stack.run_worker(("-m", "tests.e2e.parsers_worker", *models), wait=False)
        frontend = stack.frontend(command=HUGGINGFACE_FRONTEND, wait=False)
        for name in OUTPUTS:
            stack.wait_for_model(frontend, name)
        yield frontend.url


@pytest.mark.parametrize("name", OUTPUTS)
@pytest.mark.parametrize("kind", range(3), ids=["open", "rejected", "malformed"])
def test_a_call_that_is_not_complete_is_content(url: str, name: str, kind: int) -> None:
    prompt = PROMPT.format(pace=PLAIN, text=OUTPUTS[name][kind].encode().hex())
    body = {
        "model": name,
        "messages": [{"role": "user", "content": prompt}],
        "tools": list(TOOLS),
    }
    [choice] = HTTP.post(f"{url}/v1/chat/completions", json=body).json()["choices"]
    assert not choice["message"].get("tool_calls")
    assert choice["finish_reason"] == "stop"
    words = re.findall(r"\w+", choice["message"]["content"])
    assert {"write", "a", "b"} <= set(words)
