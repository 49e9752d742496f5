"""The command on rows with images and without, with the tiny vision model and transformers."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest
import torch

from examples.make_vision_model import make
from tests.offline.batch_files import batch_row, read_answers, run_here
from tests.offline.vision_rows import make_image

TEXT = {"type": "text", "text": "What?"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.set_num_threads(1)
    path = tmp_path_factory.mktemp("images")
    make(path / "model")
    for width in (140, 280):
        make_image(width, 140).save(path / f"{width}.png")
    (path / "notes.txt").write_text("no image")
    return path


def ask(*parts: dict[str, Any]) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": [*parts, TEXT]}]}


def run(folder: Path, rows: list[dict[str, Any]], name: str, *flags: str) -> tuple[int, list[Any]]:
    source, output = folder / f"{name}.jsonl", folder / f"{name}.out.jsonl"
    source.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    files = ("--input", str(source), "--output", str(output))
    model = ("--model", str(folder / "model"), "--backend", "hf", "--dtype", "float32")
    status = run_here([*model, *files, "--max-new-tokens", "4", "--temperature", "0", *flags])
    answers = sorted(read_answers(output), key=lambda answer: int(answer["id"]))
    return status, answers


def rows_with_images(folder: Path) -> list[dict[str, Any]]:
    data = base64.b64encode((folder / "140.png").read_bytes()).decode()
    return [
        {"id": 0, "image": "140.png", "messages": [{"role": "user", "content": "What?"}]},
        {"id": 1, **ask({"type": "image_url", "image_url": {"url": "280.png"}})},
        {"id": 2, **ask({"type": "image", "image": f"data:image/png;base64,{data}"})},
        {"id": 3, "messages": [{"role": "user", "content": "What?"}]},
        {"id": 4, **ask({"type": "image_url", "image_url": {"url": "none.png"}})},
        {"id": 5, "image": "notes.txt", "messages": [{"role": "user", "content": "What?"}]},
        {"id": 6, "image": "model", "messages": [{"role": "user", "content": "What?"}]},
    ]


def test_rows_with_images_and_without_in_one_file(folder: Path) -> None:
    status, answers = run(folder, rows_with_images(folder), "mixed")
    assert status == 3
    responses = [answer["response"] for answer in answers]
    assert [bool(response["error"]) for response in responses] == [False] * 4 + [True] * 3
    tokens = [response.get("prompt_tokens") for response in responses[:4]]
    # An image of 140 x 140 pixels has 25 tokens, one of 280 x 140 has 50.
    assert tokens[1] == tokens[0] + 25 == tokens[2] + 25
    assert tokens[3] < tokens[0]
    assert responses[0]["text"] == responses[2]["text"]
    assert {response["error"]["code"] for response in responses[4:]} == {"image"}
    assert "none.png" in responses[4]["error"]["message"]


def test_a_budget_of_pixels(folder: Path) -> None:
    rows = rows_with_images(folder)[:2]
    status, answers = run(folder, rows, "budget", "--max-pixels", str(25 * 28 * 28))
    assert status == 0
    few, many = (answer["response"]["prompt_tokens"] for answer in answers)
    assert many <= few


def test_images_are_fetched_from_allowed_hosts_only(folder: Path) -> None:
    unknown = batch_row(0, ask({"type": "image_url", "image_url": {"url": "https://a/b.png"}}))
    source, output = folder / "web.jsonl", folder / "web.out.jsonl"
    source.write_text(json.dumps(unknown) + "\n")
    files = ("--input", str(source), "--output", str(output))
    assert run_here(["--model", str(folder / "model"), *files]) == 3
    [answer] = read_answers(output)
    assert answer["error"]["code"] == "image"
    assert "'a', port 443, which is not in image_hosts" in answer["error"]["message"]
