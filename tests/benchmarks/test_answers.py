"""The answers of the benchmarks: transcripts, stretched without changing their syntax."""

from __future__ import annotations

import json

import pytest

from benchmarks.answers import KINDS, answer, tokenizer


@pytest.mark.parametrize("kind", KINDS)
def test_a_stretched_answer_has_about_the_wanted_length(kind: str) -> None:
    short, long = answer(kind), answer(kind, 2_000)
    assert len(short.token_ids) < len(long.token_ids) <= 2_000
    assert long.question == short.question
    assert long.request == short.request


@pytest.mark.parametrize("kind", KINDS)
def test_the_output_holds_the_expected_texts(kind: str) -> None:
    stretched = answer(kind, 1_000)
    output = tokenizer().decode(stretched.token_ids, skip_special_tokens=False)
    assert stretched.texts.content.strip() in output
    assert stretched.texts.reasoning.strip() in output


def test_stretched_arguments_stay_json() -> None:
    short, long = (json.loads(answer("tools", tokens).texts.arguments) for tokens in (0, 4_000))
    assert long.keys() == short.keys()
    assert len(json.dumps(long)) > 2 * len(json.dumps(short))
