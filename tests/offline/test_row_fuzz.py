"""Damaged rows among good ones: each gets an answer or an error of its own, on any back end.

FUZZ_ROWS sets the number of rows for each back end.
"""

from __future__ import annotations

import copy
import json
import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from backedge.offline import GenerationEngine, GenerationOptions, ModelLoadConfig
from backedge.offline.batch_job import OPTION_FIELDS, REQUEST_FIELDS, BatchJob, RowReader
from backedge.offline.contracts import GenerationResult

from tests.support import TINY_MODEL, TRANSCRIPTS

ROWS = {"replay": 500, "hf": 48}
GOOD = TRANSCRIPTS["plain_text"]
FIELDS = [*OPTION_FIELDS, *REQUEST_FIELDS, "image", "prompt", "model", "logprobs", "top_logprobs"]
DEEP: Any = []
for _ in range(300):
    DEEP = [DEEP]
JUNK: list[Any] = [
    *(None, True, 0, -1, 1.5, 5, 2**31, 2**63, 1e308, "", "x", "\u0000", "<|video_pad|>"),
    *([], [1], [None], [[]], [2**63], ["x", 5], {}, {"type": "text"}, {"url": 5}, DEEP),
    *({"tools": [1]}, {"messages": [1]}, {"tokenize": True}, {"enable_thinking": []}),
    *({"type": "text", "text": 5}, {"type": "json_schema"}, {"type": "structural_tag"}),
    *([{"role": "user", "content": 5}], [{"role": "tool"}], [{"role": "user", "content": [5]}]),
    *([{"type": "function", "function": {"name": "f", "parameters": 5}}]),
    {"type": "json_schema", "json_schema": {"schema": {"$ref": "#/nowhere"}}},
]
TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}


def good_row(number: int) -> dict[str, Any]:
    fields = {"messages": GOOD["messages"], "temperature": 0, "max_tokens": 4}
    fields["chat_template_kwargs"] = GOOD["chat_template_kwargs"]
    return {"custom_id": f"good-{number}", "body": fields} if number % 2 else fields


def paths(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield each place inside a value: its container, and its key."""
    for key in list(value) if isinstance(value, dict) else range(len(value)):
        yield value, key
        if isinstance(value[key], dict | list):
            yield from paths(value[key])


def damaged_row(chance: random.Random) -> dict[str, Any]:
    row = copy.deepcopy(good_row(chance.randrange(2)))
    fields = row.get("body", row)
    if chance.random() < 0.5:
        parts = [{"type": "text", "text": "Hi"}, {"type": "image_url", "image_url": {"url": "x"}}]
        fields["messages"] = [{"role": "user", "content": parts[: chance.randrange(3)]}]
    if chance.random() < 0.5:
        fields |= {"tools": [copy.deepcopy(TOOL)], "tool_choice": chance.choice(["auto", "none"])}
    if chance.random() < 0.3:
        fields["guided_choice"] = ["a", "b"]
    for _ in range(chance.randint(1, 3)):
        if chance.random() < 0.5:
            fields[chance.choice(FIELDS)] = copy.deepcopy(chance.choice(JUNK))
        else:
            container, key = chance.choice(list(paths(fields)))
            container[key] = copy.deepcopy(chance.choice(JUNK))
    if "messages" not in row and "body" not in row and "prompt" not in row:
        row["prompt"] = chance.choice(JUNK)
    return row


@pytest.mark.parametrize("backend", ROWS)
def test_a_damaged_row_ends_no_other(backend: Any) -> None:
    if backend == "hf":
        pytest.importorskip("transformers")
    count = int(os.environ.get("FUZZ_ROWS", ROWS[backend]))
    chance = random.Random(count)
    rows = {
        line: good_row(line) if line % 4 == 0 else damaged_row(chance)
        for line in range(1, count + 1)
    }
    answers: dict[int, Any] = {}
    texts: set[str] = set()

    def write(line: int, answer: bytes, result: GenerationResult) -> None:
        answers[line] = json.loads(answer)
        if line % 4 == 0:
            assert result.error is None, answers[line]
            texts.add(result.text)

    options = GenerationOptions(temperature=0, max_new_tokens=4)
    config = ModelLoadConfig(TINY_MODEL, backend=backend)
    with GenerationEngine(config) as engine:
        reader = RowReader(options, Path("/nowhere"), ["tiny"])
        BatchJob(engine, reader, lambda: iter(rows.items()), write, has_images=False).run()
    assert len(texts) == 1
    # Rows with an image are another kind of request, which the model does not have.
    with_images = [line for line in rows if line not in answers]
    assert all("image" in json.dumps(rows[line]) for line in with_images)
