"""Answers of transformers' continuous batching, each with its own sampling."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from backedge.base.errors import SetupError
from backedge.engines.transformers.batching import Batcher, Choice, Limits
from backedge.engines.transformers.offline import HfBackend
from backedge.offline.contracts import GenerationOptions, ModelLoadConfig
from backedge.offline.rows import resolve_sampling
from backedge.tokenization.model_files import GenerationConfig

from tools.stack import TINY_MODEL

PROMPT = [5, 6, 7, 8]
GREEDY = GenerationOptions(temperature=0.0)


def load() -> HfBackend:
    backend = HfBackend(ModelLoadConfig(TINY_MODEL, engine_args={"device": "cpu"}))
    backend.open()
    backend.load()
    return backend


@pytest.fixture(scope="module")
def batcher() -> Iterator[Batcher]:
    backend = load()
    found = Batcher(backend.model, Limits(block_size=32, blocks=16, requests=8, tokens=128))
    yield found
    found.stop()
    assert not found.runs


def build(stops: list[int] | None = None, **options: Any) -> Choice:
    options = {"temperature": 0.0, **options}
    sampling = resolve_sampling(GenerationOptions(**options), GenerationConfig())
    return Choice(PROMPT, sampling, stops or [], seed=options.get("seed"))


def generate(
    batcher: Batcher, choices: list[Choice], tokens: int = 6, stops: list[int] | None = None
) -> list[list[int]]:
    """Return the answers of choices that are generated together."""

    async def run() -> list[list[int]]:
        ended: asyncio.Queue[Any] = asyncio.Queue()

        def take(output: Any) -> None:
            if output.is_finished():
                ended.put_nowait(output)

        for number, choice in enumerate(choices):
            assert batcher.add(
                str(number), PROMPT, choice, stops=stops or [], max_tokens=tokens, on_output=take
            )
        found = [await asyncio.wait_for(ended.get(), 60) for _ in choices]
        found.sort(key=lambda output: int(output.request_id))
        return [output.generated_tokens for output in found]

    return asyncio.run(run())


def test_a_greedy_answer_is_the_same_beside_any_other(batcher: Batcher) -> None:
    [alone] = generate(batcher, [build()])
    beside = generate(batcher, [build(temperature=2.0, seed=3), build(), build(top_k=2)])
    assert len(alone) == 6
    assert beside[1:] == [alone, alone]


def test_a_seed_gives_its_answer_again_beside_others(batcher: Batcher) -> None:
    hot: dict[str, Any] = {"temperature": 2.0}
    [alone] = generate(batcher, [build(seed=3, **hot)])
    other, again, _ = generate(batcher, [build(seed=4, **hot), build(seed=3, **hot), build(**hot)])
    assert again == alone != other


def test_bias_and_least_number_of_tokens_are_of_one_answer(batcher: Batcher) -> None:
    [greedy] = generate(batcher, [build()])
    token = next(each for each in range(100) if each not in greedy)
    biased, plain = generate(batcher, [build(logit_bias={token: 100.0}), build()])
    assert biased == [token] * 6
    assert plain == greedy
    # The stop token is the likeliest one, and must wait.
    stop = greedy[0]
    early, late = generate(
        batcher, [build([stop]), build([stop], min_tokens=3)], tokens=6, stops=[stop]
    )
    assert early == [stop]
    assert len(late) > 3
    assert stop not in late[:3]


def test_logprobs_are_those_of_the_tokens(batcher: Batcher) -> None:
    choice = build(logprobs=2)
    [token_ids] = generate(batcher, [choice])
    assert [each.top[0][0].token_id for each in choice.logprobs] == token_ids
    assert [each.own[0] for each in choice.logprobs] == [
        each.top[0][0].logprob for each in choice.logprobs
    ]


def test_a_cancelled_answer_leaves_the_others(batcher: Batcher) -> None:
    async def run() -> list[str]:
        seen: asyncio.Queue[Any] = asyncio.Queue()
        for name, tokens in (("long", 400), ("short", 20)):
            batcher.add(
                name, PROMPT, build(), stops=[], max_tokens=tokens, on_output=seen.put_nowait
            )
        names = []
        while True:
            output = await asyncio.wait_for(seen.get(), 60)
            if output.request_id == "long" and "long" not in names:
                batcher.cancel("long")
            names.append(output.request_id)
            if output.is_finished():
                assert output.request_id == "short"
                return names

    names = asyncio.run(run())
    assert names.count("short") == 20
    assert names.count("long") < 20


def test_answers_go_on_while_a_long_prompt_is_read_in_parts(batcher: Batcher) -> None:
    [alone] = generate(batcher, [build()], tokens=12)

    async def run() -> dict[str, list[int]]:
        ended: asyncio.Queue[Any] = asyncio.Queue()
        for number, prompt in enumerate((PROMPT, PROMPT * 60, PROMPT * 60)):
            choice = Choice(prompt, resolve_sampling(GREEDY, GenerationConfig()), [])
            batcher.add(
                str(number), prompt, choice, stops=[], max_tokens=12, on_output=ended.put_nowait
            )
        found: dict[str, list[int]] = {}
        while len(found) < 3:
            output = await asyncio.wait_for(ended.get(), 60)
            assert output.error is None
            if output.is_finished():
                found[output.request_id] = output.generated_tokens
        return found

    found = asyncio.run(run())
    assert found["0"] == alone
    assert found["1"] == found["2"]


def test_answers_that_the_cache_cannot_hold_together_are_the_same(batcher: Batcher) -> None:
    # transformers drops some from its cache, and reads their prompts and tokens again.
    options: dict[str, Any] = {"temperature": 1.5, "frequency_penalty": 0.5, "logprobs": 0}

    def build_all() -> list[Choice]:
        return [build(seed=seed, **options) for seed in range(4)]

    apart = [generate(batcher, [choice], tokens=200)[0] for choice in build_all()]
    choices = build_all()
    assert generate(batcher, choices, tokens=200) == apart
    assert [len(choice.logprobs) for choice in choices] == [200] * 4


def test_a_cache_larger_than_the_memory_is_one_sentence(batcher: Batcher) -> None:
    backend = load()
    with pytest.raises(SetupError, match=r"the cache does not fit into memory .*--num-blocks"):
        Batcher(backend.model, Limits(blocks=1 << 24))
