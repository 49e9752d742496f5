"""Rows of embeddings, with a stand-in for an engine: what is read, refused, written, continued."""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from backedge.base.errors import RequestError
from backedge.base.limits import MAX_EMBEDDED_INPUTS
from backedge.offline import EmbeddingRequest, GenerationEngine, ModelLoadConfig, Plugin
from backedge.offline.contracts import CapabilityError, EngineDiedError, PluginError
from backedge.offline.embeddings import read_embedding
from backedge.offline.inference_backend import EMBEDDINGS
from backedge.testing.offline import ReplayBackend

from tests.offline.batch_files import WITHOUT_PARSERS, read_answers, run_here
from tests.support import TINY_MODEL, encode

URL = "/v1/embeddings"
POISON = encode("poison")


class Embedder:
    """Embeds an input as its length and its first token; one input makes it raise."""

    def __init__(self, died_at: int | None = None) -> None:
        self.sizes: list[int] = []
        self.died_at = died_at

    def embed(self, inputs: Sequence[list[int]]) -> list[list[float]]:
        if len(self.sizes) == self.died_at:
            raise EngineDiedError("the stand-in")
        self.sizes.append(len(inputs))
        if POISON in inputs:
            raise ValueError("too bitter")
        return [[len(token_ids), token_ids[0] / 2] for token_ids in inputs]


@pytest.fixture
def embedder(monkeypatch: pytest.MonkeyPatch) -> Embedder:
    found = Embedder()
    monkeypatch.setattr(ReplayBackend, "capabilities", ReplayBackend.capabilities | {EMBEDDINGS})
    monkeypatch.setattr(ReplayBackend, "embed", lambda _, inputs: found.embed(inputs))
    return found


def build_engine(**config: Any) -> GenerationEngine:
    return GenerationEngine(ModelLoadConfig(TINY_MODEL, backend="replay"), **config)


def row(number: int, **body: Any) -> dict[str, Any]:
    return {"custom_id": f"row-{number}", "method": "POST", "url": URL, "body": body}


def run(folder: Path, rows: Sequence[dict[str, Any]], name: str = "out") -> tuple[int, Path]:
    source, output = folder / "in.jsonl", folder / name
    source.write_text("".join(f"{json.dumps(each)}\n" for each in rows))
    files = ("--input", str(source), "--output", str(output))
    return run_here([*WITHOUT_PARSERS, *files]), output


@pytest.mark.parametrize(
    ("given", "inputs"),
    [
        ("Hi", ["Hi"]),
        (["Hi", ""], ["Hi", ""]),
        ([1, 2], [[1, 2]]),
        ([[1], [2, 3]], [[1], [2, 3]]),
        (["Hi", [2]], ["Hi", [2]]),
    ],
)
def test_inputs_are_texts_or_token_ids(given: Any, inputs: list[Any]) -> None:
    assert read_embedding({"input": given}, "a") == EmbeddingRequest(id="a", inputs=inputs)


WRONG: list[Any] = [None, 5, [], [[]], ["a", 1], [1.5], [[1], []], [[True]], {"a": 1}]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        *[
            ({"input": given}, "`body.input` must be a text, token ids, or a list of these")
            for given in WRONG
        ],
        ({}, "`body.input` must be a text"),
        (
            {"input": ["a"] * (MAX_EMBEDDED_INPUTS + 1)},
            "`body.input` has 2,049 inputs; at most 2,048 are allowed",
        ),
        (
            {"input": "a", "encoding_format": "int8"},
            "`body.encoding_format` must be float or base64, not 'int8'",
        ),
        ({"input": "a", "dimensions": 3}, "`body.dimensions` is not supported for embeddings"),
        ({"input": "a", "messages": []}, "`body.messages` is not supported for embeddings"),
    ],
)
def test_a_field_that_is_wrong_is_named(body: dict[str, Any], message: str) -> None:
    with pytest.raises(RequestError) as caught:
        read_embedding(body, "a")
    assert str(caught.value).startswith(message)


def test_answers_are_openai_s(embedder: Embedder, tmp_path: Path) -> None:
    rows = [row(1, input=["Hi", [5, 6]]), row(2, input="Hi", encoding_format="base64", user="u")]
    assert run(tmp_path, rows)[0] == 0
    hi, model = encode("Hi"), str(TINY_MODEL)
    vector = [float(len(hi)), hi[0] / 2]
    first, second = (answer["response"] for answer in read_answers(tmp_path / "out"))
    assert first["status_code"] == 200
    assert first["body"] == {
        "object": "list",
        "data": [
            {"object": "embedding", "index": 0, "embedding": vector},
            {"object": "embedding", "index": 1, "embedding": [2.0, 2.5]},
        ],
        "model": model,
        "usage": {"prompt_tokens": len(hi) + 2, "total_tokens": len(hi) + 2},
    }
    [data] = second["body"]["data"]
    assert list(struct.unpack("<2f", base64.b64decode(data["embedding"]))) == vector
    assert embedder.sizes == [3]


def test_a_row_that_fails_ends_no_other(embedder: Embedder, tmp_path: Path) -> None:
    wrong = [
        row(0, input="Hi"),
        row(1, input="poison"),
        row(2, input=""),
        row(3, input=[99999]),
        row(4, input=[-1]),
        row(5, input=[1] * 5000),
        row(6, input="Hi", model="other"),
        row(0, input="Hi"),
        row(8) | {"url": "/v1/chat/completions"},
        {"prompt": "Hi", "image": "a.png"},
        row(10, input="Hi"),
    ]
    assert run(tmp_path, wrong)[0] == 3
    answers = read_answers(tmp_path / "out")
    found = [(each.get("error") or {}).get("message") for each in answers]
    assert embedder.sizes[0] == 3
    assert [each["custom_id"] for each in answers if not each.get("error", True)] == [
        "row-0",
        "row-10",
    ]
    for message in (
        "replay rejects the row: ValueError: too bitter",
        "`input` must be a text with at least one token, not ''.",
        "`input` must be token ids of the model, from 0 to 559, not 99999.",
        "`input` must be token ids of the model, from 0 to 559, not -1.",
        "an input has 5000 tokens; the model takes 2048. Shorten it.",
        f"`body.model` must be {TINY_MODEL}, not 'other'.",
        "the row's id belongs to an earlier row of the file; give each its own.",
        f"`url` must be {URL}, not '/v1/chat/completions'.",
    ):
        assert message in found


def test_the_first_row_decides_what_a_batch_has(embedder: Embedder, tmp_path: Path) -> None:
    assert run(tmp_path, [{"prompt": "Hi"}, row(1, input="Hi")])[0] == 3
    answers = read_answers(tmp_path / "out")
    messages = [each["error"]["message"] for each in answers if "error" in each]
    assert messages == [f"`url` must be /v1/chat/completions, not '{URL}'."]
    assert embedder.sizes == []


def test_a_run_goes_on_where_it_ended(embedder: Embedder, tmp_path: Path) -> None:
    rows = [row(number, input=["Hi"] * 100) for number in range(8)]
    assert run(tmp_path, rows, "whole")[0] == 0
    assert embedder.sizes == [300, 300, 200]
    embedder.sizes, embedder.died_at = [], 1
    assert run(tmp_path, rows)[0] == 1
    # What is embedded together is written together, so that it is so again.
    assert len(read_answers(tmp_path / "out")) == 3
    embedder.sizes, embedder.died_at = [], None
    assert run(tmp_path, rows)[0] == 0
    assert embedder.sizes == [300, 200]
    assert (tmp_path / "out").read_bytes() == (tmp_path / "whole").read_bytes()


def test_an_engine_embeds_and_answers_by_turns(embedder: Embedder) -> None:
    with build_engine() as engine:
        found = engine.embed_batch(
            [EmbeddingRequest(inputs=["Hi"]), EmbeddingRequest(inputs=[[7]])]
        )
        assert [result.embeddings for result in found][1] == [[1.0, 3.5]]
        assert engine.in_windows
        assert [result.id for result in found] == ["0", "1"]
        engine.load()
        assert not engine.in_windows
    assert embedder.sizes == [2]


def test_what_cannot_embed_is_refused_by_name() -> None:
    request = EmbeddingRequest(inputs=["Hi"])
    with (
        build_engine() as engine,
        pytest.raises(CapabilityError, match="use 'hf', 'sglang', 'vllm'"),
    ):
        engine.embed_batch([request])
    with pytest.raises(PluginError, match="for answers, not for embeddings"):
        build_engine(plugins=[Plain()]).embed_batch([request])


class Plain(Plugin):
    name = "plain"

    def clean(self, text: str) -> str:
        return text
