"""Damaged rows among good ones: each gets an answer or an error of its own, on any back end.

FUZZ_ROWS sets the number of rows for each back end, and adds the engines (`make test-batch-rows`).
A back end's images are those of the tiny vision model.
"""

from __future__ import annotations

import base64
import collections
import copy
import io
import json
import os
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from backedge.offline import GenerationEngine, GenerationOptions, ModelLoadConfig
from backedge.offline.batch_file import list_kinds
from backedge.offline.batch_job import OPTION_FIELDS, REQUEST_FIELDS, BatchJob, RowReader
from backedge.offline.results import GenerationResult

from examples.make_vision_model import make
from tests.e2e.offline_batch import ARGUMENTS, ENVIRONMENT
from tests.offline.vision_rows import make_image
from tests.support import TINY_MODEL, TRANSCRIPTS

ROWS = {"replay": 500, "hf": 48, "hf images": 48, "hf embeddings": 48}
if "FUZZ_ROWS" in os.environ:
    further = ("vllm", "vllm images", "vllm embeddings", "sglang", "sglang embeddings")
    ROWS = dict.fromkeys((*ROWS, *further), int(os.environ["FUZZ_ROWS"]))
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
PLACEHOLDERS = ("<|image_pad|>", "<|video_pad|>", "<|vision_start|><|image_pad|><|vision_end|>")
TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}


def encode_image(kind: str, *, cut: int | None = None) -> str:
    file = io.BytesIO()
    make_image(56, 28).save(file, kind)
    return f"data:image/png;base64,{base64.b64encode(file.getvalue()[:cut]).decode()}"


IMAGE = encode_image("PNG")
IMAGES = [
    *(IMAGE, IMAGE, IMAGE, encode_image("GIF"), encode_image("EPS"), encode_image("PNG", cut=99)),
    *("data:,", "data:image/png;base64,!", "/dev/zero", "none.png", "https://a/b.png", "", 5, {}),
]


# Of "Hello" with the example model, by any engine.
EMBEDDING = [-0.06406, 0.01223, -0.15990]
INPUTS = ["Hi", "", [1], [560], [-1], ["Hi", [2]], ["x" * 3000], [[]], ["Hi"] * 300, [1] * 2049]


def embedding_row(chance: random.Random | None = None) -> dict[str, Any]:
    """Return a row of embeddings, damaged if there is a generator."""
    body: dict[str, Any] = {"input": ["Hello"], "model": "tiny"}
    if chance is not None:
        body["input"] = chance.choice([*INPUTS, *JUNK])
        for _ in range(chance.randrange(3)):
            field = chance.choice(
                ["input", "model", "encoding_format", "user", "dimensions", *FIELDS]
            )
            body[field] = copy.deepcopy(chance.choice(JUNK))
    return {"custom_id": "a", "url": "/v1/embeddings", "body": body}


def good_row(number: int, *, image: bool = False) -> dict[str, Any]:
    fields = {"messages": GOOD["messages"], "temperature": 0, "max_tokens": 4}
    fields["chat_template_kwargs"] = GOOD["chat_template_kwargs"]
    row = {"custom_id": f"good-{number}", "body": fields} if number % 2 else fields
    return {**row, "image": IMAGE} if image else row


def paths(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield each place inside a value: its container, and its key."""
    for key in list(value) if isinstance(value, dict) else range(len(value)):
        yield value, key
        if isinstance(value[key], dict | list):
            yield from paths(value[key])


def damaged_row(chance: random.Random, *, image: bool = False) -> dict[str, Any]:
    row = copy.deepcopy(good_row(chance.randrange(2), image=image))
    fields = row.get("body", row)
    if image:
        row["image"] = chance.choice(IMAGES)
        text = "".join(chance.choices(["Hi", *PLACEHOLDERS], [5, 1, 1, 1], k=2))
        fields["messages"] = [{"role": "user", "content": text}]
        if fields is row and chance.random() < 0.3:
            row |= {"prompt": text, "messages": None}
    elif chance.random() < 0.5:
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


@pytest.mark.parametrize("kind", ROWS)
def test_a_damaged_row_ends_no_other(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend, _, what = kind.partition(" ")
    images, embeds = what == "images", what == "embeddings"
    model = TINY_MODEL
    if backend != "replay":
        pytest.importorskip({"hf": "transformers"}.get(backend, backend))
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    if images:
        model = tmp_path / "model"
        make(model)
    count = ROWS[kind]
    chance = random.Random(count)
    rows = {
        line: good_row(line, image=images) if line % 4 == 0 else damaged_row(chance, image=images)
        for line in range(1, count + 1)
    }
    if embeds:
        rows = {line: embedding_row(chance if line % 4 else None) for line in rows}
    answers: dict[int, Any] = {}
    texts: set[str] = set()
    counts = collections.Counter[str]()

    def write(line: int, answer: bytes, result: GenerationResult) -> None:
        answers[line] = json.loads(answer)
        counts[result.error.kind if result.error else "answered"] += 1
        if line % 4 == 0:
            assert result.error is None, answers[line]
            assert [vector[:3] for vector in result.embeddings] == [
                pytest.approx(EMBEDDING, abs=1e-5)
            ] * embeds
            texts.add(result.text)

    options = GenerationOptions(temperature=0, max_new_tokens=4)
    arguments = {} if images else ARGUMENTS[backend]
    fields: Any = {"backend": backend, "engine_args": arguments}
    config = ModelLoadConfig(model, dtype="float32", max_model_len=2048, **fields)
    with GenerationEngine(config) as engine:
        reader = RowReader(options, Path("/nowhere"), ["tiny"])
        job = BatchJob(
            engine,
            reader,
            lambda: iter(rows.items()),
            write,
            kinds=["embed"] if embeds else list_kinds(has_images=images),
        )
        job.run()
    sys.stdout.write(f"{kind}: {count} rows, {dict(counts.most_common())}\n")
    assert len(texts) == 1
    # Rows with an image are another kind of request, which the model may not have.
    with_images = [line for line in rows if line not in answers]
    assert all("image" in json.dumps(rows[line]) for line in with_images)
    assert not (images and with_images)
