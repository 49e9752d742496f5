"""Dynamo's own parsers find the same in a worker's text at any pace as in tokens one at a time.

    make test-stock-parsers

compares all of them, alone and in pairs, over all texts of their families; CI those that differ
most. With DYN_PARSER_VERSION=2, those of which Dynamo has a second version.
"""

from __future__ import annotations

import functools
import json
import os
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from backedge.base.errors import REASONING_FLAG, TOOL_CALL_FLAG
from backedge.parsers.parser_lookup import tool_format
from backedge.worker.stock_frontends import known_in_rust

from tests.e2e.client import HTTP
from tests.e2e.parsers_worker import PACES, PLAIN, PROMPT
from tests.parsers.families import FAMILIES
from tests.parsers.families.family import SCENARIOS, TOOLS, Invocation
from tools.stack import ROOT, STOCK_FRONTEND, Process, Stack, fetch

ALL = bool(os.environ.get("BACKEDGE_ALL_PARSERS"))
AT_ONCE = 12
# A frontend holds four of a user's 128 inotify instances for each model.
BATCH = 8
CALL: Invocation = ("write", {"path": "a.txt", "text": "hi"})
CODE: Invocation = ("write", {"path": "x{1}", "text": "if a[0] < 3 > 2: {'k': \"v\"} # ```json"})
OBJECT = '{"name": "write", "arguments": {"path": "a", "text": "b"}}'
TEXTS = (
    "I look it up in [1]. Then {x} and <b>bold</b>: 1 < 2 > 0.",
    f"```json\n{OBJECT}\n```\nSo it is [2].",
    "A list: [1, 2, 3] and [write(path='a', text='b')] stay. {\"a\": 1}",
    OBJECT,
    f"{OBJECT} and text",
    f"[{OBJECT}] behind",
    '[write(path="a", text="b")]',
    "def f(x):\n    return {'n': [x], \"y\": x < 3}\n\nprint(f(1))\n",
    "  leading space and trailing space  ",
    "Import functools and [x] for it. <tool is no call, nor is <|x|>.",
    "Münster 你好 👋🏽 {ж} [世界] \n\n naïve",
)
THOUGHT = "I think about [1] {x} <b> so."
TAGS = {
    "kimi": ("◁think▷", "◁/think▷"),
    "granite": ("Here's my thought process:", "Here's my response:"),
    "mistral": ("[THINK]", "[/THINK]"),
    "gpt_oss": (
        "<|channel|>analysis<|message|>",
        "<|end|><|start|>assistant<|channel|>final<|message|>",
    ),
    "gemma4": ("<|channel>thought\n", "<channel|>"),
    "minimax_m3": ("<mm:think>", "</mm:think>"),
}
OTHER_NAMES = {"minimax_m3_nom": "minimax_m3", "default": "hermes"}
# Of the same parser in Dynamo by another name.
ALIASES = frozenset(
    (
        *("kimi-k3", "deepseek-v4", "deepseekv4", "gemma-4", "minimax-m3", "minimax-m3-nom"),
        *("kimi_k25", "muse", "qwen25"),
    )
)
OFTEN = ("hermes", "llama3_json", "mistral", "phi4", "pythonic", "harmony", "glm47", "qwen3_coder")


def texts_with_calls(parser: str) -> list[str]:
    found = tool_format(OTHER_NAMES.get(parser, parser))
    family = None if found is None else FAMILIES.get(found.name)
    if family is None or family.write is None:
        return list(TEXTS)
    write = family.write
    call, code = write("", [CALL]), write("", [CODE])
    texts = [
        *TEXTS,
        write("I look it up in [1]. ", [CALL]),
        write("Use {x} and <b>: ", [CODE]),
        f"{call} Done, see [2].",
        f"{call}\nFirst.\n{code}\nDone.",
        write("Both. ", [CALL, CODE]),
        call + call,
        call[: len(call) * 2 // 3],
        code[:-1],
        f"```\n{call}\n```\nIn code.",
        f"{call}\n",
    ]
    if ALL:
        texts += [write(each.content, each.calls) + each.behind for each in SCENARIOS]
        texts += [case.output for case in family.cases]
    return texts


def texts_with_reasoning(parser: str) -> list[str]:
    start, end = TAGS.get(parser, ("<think>", "</think>"))
    return [
        f"{start}{THOUGHT}{end}Answer [2].",
        f"{start}\n{THOUGHT}\n{end}\n\nAnswer {{x}}.",
        f"{THOUGHT}{end}Answer.",
        f"{start}{THOUGHT}",
        "No thought, an answer with [1] and <b>.",
        f"Said. {start}{THOUGHT}{end}More. {start}again{end}End.",
        f"{start}世界 👋🏽{end}世界",
    ]


def batches() -> list[tuple[str, ...]]:
    """Return the models by batch, as the worker's arguments."""
    tools = sorted(set(known_in_rust(TOOL_CALL_FLAG)) - ALIASES) if ALL else OFTEN
    reasoning = sorted(set(known_in_rust(REASONING_FLAG)) - ALIASES) if ALL else ()
    models = [
        *(f"{name}:{name}:" for name in tools),
        *(f"r-{name}::{name}" for name in reasoning),
        *(f"p-{name}:{name}:{name}" for name in tools if name in reasoning),
    ]
    return [tuple(models[start : start + BATCH]) for start in range(0, len(models), BATCH)]


def texts(model: str) -> list[str]:
    """Return what a model generates, named as the worker's argument."""
    _, tool, reasoning = model.split(":")
    if not (tool and reasoning):
        return texts_with_calls(tool) if tool else texts_with_reasoning(reasoning)
    thought = texts_with_reasoning(reasoning)
    return [
        *thought,
        *texts_with_calls(tool),
        *(thought[0] + each for each in texts_with_calls(tool)),
    ]


def ask(url: str, model: str, text: str, *, pace: str, stream: bool) -> dict[str, Any]:
    name, tool, _ = model.split(":")
    prompt = PROMPT.format(pace=pace, text=text.encode().hex())
    body = {
        "model": name,
        "messages": [{"role": "user", "content": prompt}],
        "stream": stream,
        **({"tools": list(TOOLS)} if tool else {}),
    }
    content = HTTP.post(f"{url}/v1/chat/completions", json=body).text
    lines = content.splitlines() if stream else [f"data: {content}"]
    answer: dict[str, Any] = {"content": "", "reasoning": "", "calls": {}, "finish": None}
    for line in lines:
        if line.startswith("data: {"):
            for choice in json.loads(line.removeprefix("data: "))["choices"]:
                add(answer, choice, choice["delta" if stream else "message"])
    if tool == "pythonic":
        # Dynamo's parser gives the keys of an object in an object in any order.
        for call in answer["calls"].values():
            call[1] = json.loads(call[1])
    return answer


def add(answer: dict[str, Any], choice: dict[str, Any], part: dict[str, Any]) -> None:
    answer["content"] += part.get("content") or ""
    answer["reasoning"] += part.get("reasoning_content") or ""
    answer["finish"] = choice["finish_reason"] or answer["finish"]
    for position, call in enumerate(part.get("tool_calls") or []):
        whole = answer["calls"].setdefault(call.get("index", position), ["", ""])
        whole[0] += call["function"].get("name") or ""
        whole[1] += call["function"].get("arguments") or ""


@pytest.fixture(scope="module", params=batches(), ids=lambda batch: batch[0])
def served(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, tuple[str, ...]]]:
    folder = tmp_path_factory.mktemp("parsers")
    with Stack(folder, PYTHONPATH=str(ROOT)) as stack:
        worker = stack.run_worker(("-m", "tests.e2e.parsers_worker", *request.param), wait=False)
        frontend = stack.frontend(command=STOCK_FRONTEND, wait=False)
        models = tuple(each for each in request.param if is_served(worker, frontend, each))
        if not models:
            pytest.skip("Dynamo has no second version of any of these parsers")
        yield frontend.url, models


def is_served(worker: Process, frontend: Process, model: str) -> bool:
    """Wait for a model; return whether its parsers have the version that Dynamo is to use."""
    name = model.partition(":")[0]
    refusal = re.compile(rf'\["{name}",.*no compatible unified v2 implementation')
    seen: list[bool] = []

    def decided() -> bool:
        worker.check()
        if f'"{name}"' in fetch(frontend.url + "/v1/models"):
            seen.append(True)
        elif refusal.search(frontend.log.read_text()):
            seen.append(False)
        return bool(seen)

    frontend.wait_for(decided)
    return seen[0]


Case = tuple[str, str]
"""A model, as the worker's argument, and the text that it generates."""


@functools.cache
def ask_all(
    url: str, models: tuple[str, ...], pace: str, *, stream: bool
) -> list[tuple[Case, dict[str, Any]]]:
    """Return the answer to each case of the models."""
    cases = [(model, text) for model in models for text in texts(model)]
    send = functools.partial(ask, url, pace=pace, stream=stream)
    with ThreadPoolExecutor(AT_ONCE) as threads:
        answers = threads.map(send, *zip(*cases, strict=True))
        return list(zip(cases, answers, strict=True))


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
@pytest.mark.parametrize("pace", PACES)
def test_answers_do_not_depend_on_the_pace(
    served: tuple[str, tuple[str, ...]], pace: str, stream: bool
) -> None:
    expected, found = (ask_all(*served, each, stream=stream) for each in (PLAIN, pace))
    assert [pair for pair in zip(expected, found, strict=True) if pair[0] != pair[1]] == []
