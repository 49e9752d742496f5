"""Grammars of rows in a batch of transformers: which tokens are left, and what is refused."""

from __future__ import annotations

import json

import pytest
import torch
from backedge.engines.transformers.offline_hooks import NOT_HELD, GrammarMask, Grammars
from backedge.offline.rows import Grammar, RowFailure

from tests.support import TINY_MODEL, encode, tiny_tokenizer

pytest.importorskip("xgrammar")
transformers = pytest.importorskip("transformers")

# More logits than tokens, as models have them.
VOCABULARY = 576
[END] = encode("<|im_end|>")


def build(**guided):
    return Grammar(guided, guided, json_calls=False)


@pytest.fixture(scope="module")
def grammars():
    return Grammars(transformers.AutoTokenizer.from_pretrained(TINY_MODEL), VOCABULARY)


def write(mask, rows, steps):
    """Return what each row may write, by its likeliest token, after a prompt of one token."""
    input_ids = torch.tensor([[1]] * rows)
    # Ends are the likeliest, so that each row ends as soon as it may.
    likes = torch.arange(VOCABULARY, dtype=torch.float32).neg()
    likes[END] = 9
    for _ in range(steps):
        scores = mask(input_ids, likes.repeat(rows, 1))
        input_ids = torch.cat([input_ids, scores.argmax(dim=1, keepdim=True)], dim=1)
    return [
        tiny_tokenizer().decode(row[: row.index(END)] if END in row else row)
        for row in input_ids[:, 1:].tolist()
    ]


def test_each_row_has_its_own_grammar_and_some_have_none(grammars):
    rows = [build(choice=["yes"]), None, build(regex="[a-c]{3}"), build(json={"type": "boolean"})]
    compiled = [row and grammars.compile(row) for row in rows]
    found = write(GrammarMask(compiled, 1, [END]), len(rows), 8)
    assert found[:2] == ["yes", ""]
    assert len(found[2]) == 3
    assert set(found[2]) <= set("abc")
    assert isinstance(json.loads(found[3]), bool)


def test_any_stop_token_may_end_a_complete_answer_and_no_other(grammars):
    [stop] = encode("a")
    mask = GrammarMask([grammars.compile(build(choice=["yes"]))], 1, [stop])
    input_ids = torch.tensor([[1, *encode("yes")]])
    allowed = mask(input_ids, torch.zeros(1, VOCABULARY)).isfinite().nonzero()[:, 1].tolist()
    assert allowed == [stop]


def test_xgrammar_offers_a_stop_token_that_it_refuses(grammars):
    """Once this fails, its line in docs/upstream.md and `take_stop_tokens` can go."""
    import xgrammar

    [comma] = encode(",")
    compiled = grammars.compile(build(regex="a,b"))
    matcher = xgrammar.GrammarMatcher(compiled, override_stop_tokens=[comma])
    assert matcher.accept_token(*encode("a"))
    mask = GrammarMask([compiled], 1, [comma])
    input_ids = torch.tensor([[1, *encode("a")]])
    allowed = mask(input_ids, torch.zeros(1, VOCABULARY)).isfinite().nonzero()[:, 1].tolist()
    assert allowed == [comma]
    assert not matcher.accept_token(comma)


def test_a_row_that_has_ended_is_padded_freely(grammars):
    mask = GrammarMask([grammars.compile(build(choice=["yes"]))], 1, [END])
    ended = torch.tensor([[1, *encode("yes"), END, END]])
    assert mask(ended, torch.zeros(1, VOCABULARY)).isfinite().all()
    broken = GrammarMask([grammars.compile(build(choice=["yes"]))], 1, [END])
    assert broken(torch.tensor([[1, END]]), torch.zeros(1, VOCABULARY)).isfinite().all()


# guided decoding, part of the message
REFUSED = [
    ({"json": {"$ref": "#/$defs/none"}}, "xgrammar rejects the grammar"),
    ({"grammar": "root := ("}, "xgrammar rejects the grammar"),
    ({"regex": "(a"}, "xgrammar rejects the grammar"),
    ({"structural_tag": {"format": {"type": "nothing"}}}, "xgrammar rejects the grammar"),
    ({"structural_tag": {}}, "a structural tag, with `format`"),
    *[({"json": {"items": {word: 1}}}, f"the schema uses '{word}'") for word in sorted(NOT_HELD)],
]


@pytest.mark.parametrize(("guided", "part"), REFUSED, ids=str)
def test_refused(grammars, guided, part):
    with pytest.raises(RowFailure, match=r".") as caught:
        grammars.compile(build(**guided))
    assert part in caught.value.error.message
    assert caught.value.error.kind == "request"
