"""A batch on a real vLLM whose model slips: each call that its output has is right."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.slipping.scripts import FIRST_SEED, OUTPUTS, RIGHT, SLIPS, TEXT, TWO
from tests.e2e.test_regenerate import OSLO, PARAMETERS, REPAIRED, TOOL
from tools.offline import CPU_ARGUMENTS, read_answers
from tools.stack import CPU_ENVIRONMENT, ROOT, TINY_MODEL

LOGITS = 'logits_processors=["tests.e2e.slipping.vllm_logits:Slipping"]'
ENVIRONMENT = {
    **CPU_ENVIRONMENT,
    "OMP_NUM_THREADS": "1",
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "HF_HUB_OFFLINE": "1",
}


@pytest.fixture(scope="module")
def messages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """Return the message of each output of the model."""
    folder = tmp_path_factory.mktemp("batch")
    source, output = folder / "in.jsonl", folder / "out.jsonl"
    source.write_text("".join(f"{json.dumps(row)}\n" for row in map(build_row, OUTPUTS)))
    arguments = [f"{name}={value}" for name, value in CPU_ARGUMENTS.items()]
    command = [
        *(sys.executable, "-m", "backedge.offline", "--model", str(TINY_MODEL)),
        *("--backend", "vllm", "--dtype", "float32", "--max-model-len", "2048"),
        *("--tool-call-parser", "hermes", "--reasoning-parser", "qwen3"),
        *("--temperature", "0", "--malformed-calls", "regenerate"),
        *(part for each in (*arguments, LOGITS) for part in ("--engine-args", each)),
        *("--input", str(source), "--output", str(output)),
    ]
    environment = {**os.environ, **ENVIRONMENT, "PYTHONPATH": str(ROOT)}
    ended = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr[-4000:]
    answers = {answer["custom_id"]: answer for answer in read_answers(Path(output))}
    return {
        text: answers[str(number)]["response"]["body"]["choices"][0]["message"]
        for number, text in enumerate(OUTPUTS)
    }


def build_row(output: str) -> dict[str, Any]:
    number = OUTPUTS.index(output)
    body = {
        "messages": [{"role": "user", "content": "Weather?"}],
        "tools": [TOOL],
        "max_tokens": 400,
        "seed": FIRST_SEED + number,
    }
    url = "/v1/chat/completions"
    return {"custom_id": str(number), "method": "POST", "url": url, "body": body}


@pytest.mark.parametrize("output", SLIPS, ids=list(SLIPS.values()))
def test_the_call_is_right(messages: dict[str, dict[str, Any]], output: str) -> None:
    [call] = messages[output]["tool_calls"]
    arguments = json.loads(call["function"]["arguments"])
    assert call["function"]["name"] == "get_weather"
    assert isinstance(arguments["city"], str)
    assert arguments.keys() <= PARAMETERS["properties"].keys()  # type: ignore[attr-defined]  # a dict
    assert "tool_call" not in (messages[output]["content"] or "")
    if SLIPS[output] in REPAIRED:
        assert arguments["city"] == "Rome"


def test_what_was_right_stays(messages: dict[str, dict[str, Any]]) -> None:
    first, second = (call["function"] for call in messages[TWO]["tool_calls"])
    assert json.loads(first["arguments"]) == OSLO
    assert "city" in json.loads(second["arguments"])
    assert messages[TWO]["content"] == "Two."
    [call] = messages[RIGHT]["tool_calls"]
    assert json.loads(call["function"]["arguments"]) == OSLO
    assert messages[TEXT]["content"] == TEXT.removeprefix("</think>")
