"""Agents through five calls on real engines: with `exact` a loop is one sequence of token ids."""

from __future__ import annotations

import itertools
import json
import os
import runpy
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import openai
import pytest

from tests.clients.adapters import base
from tests.clients.adapters.base import ClientAdapter
from tests.clients.adapters.langchain_chat import LangChain
from tests.clients.adapters.openai_chat import TOOL, OpenAIChat
from tests.clients.adapters.pydantic_ai_agent import PydanticAI
from tests.clients.conftest import PYTHON, ROOT

CALLS = 5
# Tokens of a block in the engine's cache.
BLOCKS = {"vllm": 32, "sglang": 1}
DEADLINE_S = 20.0


class Turn(NamedTuple):
    """What the engine read and wrote. cached: tokens of the prompt that its cache had."""

    prompt: list[int]
    generated: list[int]
    cached: int


class Engine:
    """A real engine that makes five calls, and its frontends; see scripted/stack.py."""

    def __init__(self, name: str, folder: Path, urls: list[str]) -> None:
        self.name = name
        self._folder = folder / "recordings"
        self._off, self.exact = urls
        self._seen = 0

    def run(self, client: type[ClientAdapter], mode: str) -> list[Turn]:
        """Return the turns of one agent."""
        adapter = client(self.exact if mode == "exact" else self._off)
        # Each agent has a conversation that no cache knows.
        answer = adapter.run(f"Where is it warmest? ({client.label}, {mode})", stream=False)
        assert len(answer.calls) == CALLS
        assert "Paris" in answer.content
        return self.read()

    def read(self) -> list[Turn]:
        """Return the turns that were recorded since the last call."""
        deadline = time.monotonic() + DEADLINE_S
        while len(recordings := self._load()) < self._seen + CALLS + 1:
            assert time.monotonic() < deadline, f"{len(recordings)} recordings"
            time.sleep(0.05)
        new, self._seen = recordings[self._seen :], len(recordings)
        return new

    def _load(self) -> list[Turn]:
        lines = [
            json.loads(line)
            for path in self._folder.glob("**/*.jsonl")
            for line in path.read_text(encoding="utf-8").splitlines()
        ]
        turns = []
        for recording in sorted(lines, key=lambda one: one["began"]):
            chunks = [chunk for _, chunk in recording["chunks"]]
            generated = [token for chunk in chunks for token in chunk.get("token_ids", ())]
            cached = max(chunk.get("cached_tokens") or 0 for chunk in chunks)
            turns.append(Turn(recording["prompt"]["token_ids"], generated, cached))
        return turns


# SGLang's takes half a minute to start.
ENGINES = BLOCKS if os.environ.get("WHOLE_MATRICES") else ["vllm"]


@pytest.fixture(scope="module", params=ENGINES)
def engine(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Engine]:
    folder = tmp_path_factory.mktemp("agents")
    command = [PYTHON, "-m", "tests.clients.scripted.stack", folder, request.param]
    with subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as stack:
        assert stack.stdin is not None
        assert stack.stdout is not None
        urls = stack.stdout.readline().split()
        assert urls, "the stack did not start; its error stands above"
        yield Engine(request.param, folder, urls)
        stack.stdin.close()


@pytest.mark.parametrize("client", [OpenAIChat, LangChain, PydanticAI])
def test_the_next_prompt_is_the_last_one_and_its_answer(
    engine: Engine, client: type[ClientAdapter]
) -> None:
    shares = {}
    for mode in ("off", "exact"):
        turns = engine.run(client, mode)
        pairs = list(itertools.pairwise(turns))
        sequences = [last.prompt + last.generated for last, _ in pairs]
        begins = [
            following.prompt[: len(sequence)] == sequence
            for sequence, (_, following) in zip(sequences, pairs, strict=True)
        ]
        assert all(begins) if mode == "exact" else not any(begins)
        # The last generated token is in no cache: the engine never computed what follows it.
        block = BLOCKS[engine.name]
        whole = [(len(sequence) - 1) // block * block for sequence in sequences]
        cached = [following.cached for _, following in pairs]
        shares[mode] = sum(cached) / sum(whole)
        if mode == "exact":
            assert all(one >= of for one, of in zip(cached, whole, strict=True))
    print(f"{engine.name}, {client.label}: {shares}")  # noqa: T201 - docs/turns.md
    assert shares["off"] < shares["exact"]


def test_a_rollout_is_what_the_engine_read_and_wrote(engine: Engine) -> None:
    collect_rollout = runpy.run_path(str(ROOT / "examples" / "rollout.py"))["collect_rollout"]
    client = openai.OpenAI(base_url=f"{engine.exact}/v1", api_key=base.KEY)
    answer = base.Answer()
    token_ids, mask = collect_rollout(
        client,
        base.MODEL,
        [base.user("Where is it warmest? (rollout)")],
        [TOOL],
        lambda call: answer.add_call(call.function.name, call.function.arguments),
    )
    turns = engine.read()
    assert token_ids == turns[-1].prompt + turns[-1].generated
    generated = [token for token, is_generated in zip(token_ids, mask, strict=True) if is_generated]
    assert generated == [token for turn in turns for token in turn.generated]
