"""Pitfalls 1 to 34 of docs/pitfalls.md through the post-processor: whole, by token, at any cut.

A case's number is the pitfall's. What the post-processor alone cannot show is checked
where it can be:
18 that guided decoding starts behind the reasoning, 20 that a JSON schema does
not constrain reasoning, 32 `continuous_usage_stats` and the cached tokens of
disaggregated prefill, 33 ids that are unique between requests: end to end.
22 that the process stops: the worker's start. 35 and later: benchmarks and e2e.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import msgspec
import pytest
from backedge.base.errors import UnusableParserError
from backedge.engines.vllm.parsers import VllmParsers
from backedge.parsers.base import ParserNames
from backedge.parsers.parser_lookup import Kind
from backedge.postprocess import Chunk, PostprocessParams
from backedge.postprocess.messages import EngineLogprob
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.samples.sample import Call, Outcome
from benchmarks.samples.tokenizers import bpe, encode, mistral
from tests.parsers.invariants import check_deltas
from tests.parsers.pitfall_cases import CASES
from tests.parsers.pitfalls import (
    END,
    TWO_CALLS,
    USER,
    Pitfall,
    answer,
    build_model,
    count_tokens,
    hermes,
    qwen,
)
from tests.parsers.sample_model import SampleModel, as_one, cut, every_token, read_outcome

KINDS = pytest.mark.parametrize("kind", ["native", "linear"])
few_cuts = settings(max_examples=4, deadline=None, database=None)


@KINDS
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_pitfall(case: Pitfall, kind: Kind):
    model = build_model(case, kind)
    token_ids = count_tokens(case, model)
    by_token = answer(model, cut(token_ids, range(len(token_ids)), case.engine))
    if case.vllm is None or kind == "linear":
        assert by_token == case.expected
    else:
        assert by_token != case.expected, f"{case.id} works now: remove its `vllm`"
        assert by_token[0] == case.vllm[0]
    if case.check is not None:
        whole = model.run(cut(token_ids, range(len(token_ids)), case.engine))
        case.check(model, whole)
    assert answer(model, cut(token_ids, (), case.engine)) == by_token
    assert answer(model, cut(token_ids, range(0, len(token_ids), 3), case.engine)) == by_token
    model.params = msgspec.structs.replace(model.params, stream=False)
    assert answer(model, cut(token_ids, range(len(token_ids)), case.engine)) == by_token


@KINDS
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
@few_cuts
@given(cuts=st.sets(st.integers(1, 150)))
def test_pitfall_at_random_cuts(case: Pitfall, kind: Kind, cuts: Collection[int]):
    model = build_model(case, kind)
    token_ids = count_tokens(case, model)
    by_token = answer(model, cut(token_ids, range(len(token_ids)), case.engine))
    assert answer(model, cut(token_ids, cuts, case.engine)) == by_token


# Cases that are no table row: another tokenizer, another prompt, two choices.


def build_plain_model(tokenizer: Any, prompt_token_ids: list[int], **params: Any) -> SampleModel:
    """Return a model without parsers, with a request to it."""
    values: dict[str, Any] = {
        "response_id": "chatcmpl-1",
        "created": 1,
        "model": "m",
        "prompt_length": len(prompt_token_ids),
    } | params
    return SampleModel(tokenizer, None, PostprocessParams(**values), prompt_token_ids)


def test_22_a_parser_that_only_knows_the_boundary_is_refused():
    with pytest.raises(
        UnusableParserError, match="--reasoning-parser 'openai_gptoss' cannot be used"
    ):
        VllmParsers(bpe(), ParserNames(reasoning="openai_gptoss"))


@pytest.mark.parametrize("held", [1, 2, 3, 4])
def test_23_a_prompt_that_ends_in_half_a_character(held: int):
    text = encode(bpe(), "世界👋.")
    model = build_plain_model(bpe(), encode(bpe(), "Go: ") + text[:held])
    whole = model.run(every_token(text[held:] + encode(bpe(), END)))
    complete = bpe().decode(text[:held]).rstrip("\ufffd")
    assert whole.delta.content == "世界👋."[len(complete) :]


@pytest.mark.parametrize("kind", ["tekken", "sentencepiece"])
@pytest.mark.parametrize("text", ["世界 世", "logs and 👋🏽 so on", "naïve café"])
def test_23_no_character_twice_and_no_space_lost(kind: str, text: str):
    tokenizer = mistral(kind)
    model = build_plain_model(tokenizer, encode(tokenizer, "Go on."))
    by_token = model.run(
        every_token([*encode(tokenizer, text), tokenizer.eos_token_id])
    ).delta.content
    assert by_token is not None
    assert by_token.lstrip() == text


def test_24_bytes_that_never_become_a_character_are_given_out():
    lone = encode(bpe(), "é")[:1]
    model = build_plain_model(bpe(), encode(bpe(), USER))
    model.run(every_token(lone * 100 + encode(bpe(), f"ok{END}")))
    texts = [
        delta.delta.content for chunk in model.chunks for delta in chunk if delta.delta.content
    ]
    assert len(texts) > 10
    assert "".join(texts).endswith("ok")


@pytest.mark.parametrize("token_id", [len(bpe()) + 5, 2**33, -1])
def test_24_an_id_outside_the_vocabulary_has_no_text(token_id: int):
    model = build_plain_model(bpe(), encode(bpe(), USER))
    hello, end = encode(bpe(), "Hello"), encode(bpe(), END)
    whole = model.run(every_token([*hello, token_id, *hello, *end]))
    assert whole.delta.content == "HelloHello"


def test_28_the_text_of_a_stop_token_is_trimmed():
    model = build_plain_model(bpe(), encode(bpe(), USER))
    token_ids = encode(bpe(), "One two")
    stopped = Chunk(token_ids=token_ids, finish_reason="stop", stop_reason=token_ids[-1])
    whole = model.run([stopped])
    assert whole.delta.content == bpe().decode(token_ids[:-1])
    assert (whole.finish_reason, whole.stop_reason) == ("stop", token_ids[-1])


def test_28_the_text_of_a_stop_token_is_included():
    model = build_plain_model(bpe(), encode(bpe(), USER), include_stop_str_in_output=True)
    whole = model.run([Chunk(token_ids=encode(bpe(), "One two"), finish_reason="stop")])
    assert whole.delta.content == "One two"


def test_29_a_finish_without_tokens():
    case = next(case for case in CASES if case.number == 7)
    model = build_model(case)
    token_ids = count_tokens(case, model)
    empty = Chunk(finish_reason="stop")
    chunks = [*cut(token_ids[:-1], range(len(token_ids)), ""), empty]
    chunks = [
        msgspec.structs.replace(chunk, finish_reason=chunk.finish_reason or None)
        for chunk in chunks
    ]
    assert answer(model, chunks) == case.expected


def test_30_logprobs_name_each_token_with_its_bytes():
    model = build_plain_model(bpe(), encode(bpe(), USER), logprobs=2)
    token_ids = encode(bpe(), "是")
    top = [
        EngineLogprob(token_ids[0], 1, -0.5),
        EngineLogprob(0, 2, -2.0),
    ]
    count = len(token_ids)
    chunk = Chunk(
        token_ids=token_ids,
        finish_reason="length",
        logprobs=[-0.5] * count,
        top_logprobs=[top] * count,
    )
    entries = model.run([chunk]).logprobs
    assert entries is not None
    assert b"".join(bytes(entry.bytes or ()) for entry in entries) == "是".encode()
    assert all(len(entry.top_logprobs) == 2 for entry in entries)
    assert entries[0].top_logprobs[1].token == bpe().convert_ids_to_tokens(0)


def test_31_token_ids_are_complete_while_text_is_held_back():
    case = next(case for case in CASES if case.name == "no stop string after all")
    model = build_model(case)
    token_ids = count_tokens(case, model)
    model.run(every_token(token_ids))
    given = [token for chunk in model.chunks for delta in chunk for token in delta.token_ids or ()]
    assert given == token_ids


def test_32_usage_counts_every_choice_and_the_cached_tokens():
    model = build_plain_model(bpe(), encode(bpe(), USER), n=2)
    hello = encode(bpe(), "Hello")
    model.run([
        Chunk(index=0, token_ids=hello, finish_reason="length", prompt_tokens=20, cached_tokens=16),
        Chunk(index=1, token_ids=hello, finish_reason="length"),
    ])  # fmt: skip
    usage = model.post.usage
    assert (usage.prompt_tokens, usage.completion_tokens, usage.cached_tokens) == (
        20,
        2 * len(hello),
        16,
    )


@KINDS
@pytest.mark.parametrize("parsers", [("hermes", "qwen3"), ("qwen3_coder", "qwen3")], ids="+".join)
def test_33_choices_do_not_share_a_parser(parsers: tuple[str, str], kind: Kind):
    call = {"hermes": hermes(TWO_CALLS[0]), "qwen3_coder": qwen("f", a="x")}[parsers[0]]
    case = Pitfall(
        33,
        "two choices",
        f"<think>One.</think>{call}",
        parsers=parsers,
        prompt=USER,
        params={"n": 2},
    )
    model = build_model(case, kind)
    first = count_tokens(case, model)
    second = encode(model.tokenizer, f"<think>Three four.</think>Five.{END}")
    of_second = [msgspec.structs.replace(chunk, index=1) for chunk in every_token(second)]
    whole = model.run(mix(every_token(first), of_second))
    assert read_outcome(whole) == Outcome("One.", None, (Call("f", {"a": "x"}),))
    texts = [delta.delta for chunk in model.chunks for delta in chunk if delta.index == 1]
    assert "".join(text.reasoning_content or "" for text in texts) == "Three four."
    assert "".join(text.content or "" for text in texts) == "Five."
    check_deltas(model, 0)
    check_deltas(model, 1)


def mix(first: list[Chunk], second: list[Chunk]) -> list[Chunk]:
    """Return the chunks of two choices in turn."""
    turns = [chunk for pair in zip(first, second, strict=False) for chunk in pair]
    shorter = min(len(first), len(second))
    return turns + first[shorter:] + second[shorter:]


@KINDS
def test_34_any_number_of_tokens_per_chunk(kind: Kind):
    case = CASES[-1]
    model = build_model(case, kind)
    token_ids = count_tokens(case, model)
    for size in range(2, len(token_ids)):
        assert answer(model, cut(token_ids, range(0, len(token_ids), size))) == case.expected
    assert answer(model, as_one(token_ids)) == case.expected
