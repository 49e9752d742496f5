"""Tekken: pieces are bytes, and some special tokens are never hidden."""

import pytest
from backedge.tokenization.detokenizer import DetokenizerOptions
from backedge.tokenization.detokenizer.tables import TekkenDetokenizers
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.samples.tokenizers import mistral

pytest.importorskip("vllm", reason="vLLM, whose wrapper of Mistral's tokenizers is tested")
TOKENIZER = mistral("tekken")
FACTORY = TekkenDetokenizers(TOKENIZER)
SPECIAL = dict(zip(TOKENIZER.all_special_tokens, TOKENIZER.all_special_ids, strict=True))


@given(text=st.text(max_size=20))
def test_the_bytes_of_tokens_add_up_to_the_text(text):
    token_ids = TOKENIZER.encode(text, add_special_tokens=False)
    assert b"".join(map(FACTORY.token_bytes, token_ids)) == text.encode()
    assert FACTORY(DetokenizerOptions(), ()).feed_all(token_ids) == text


@pytest.mark.parametrize(
    ("token", "skip", "text"),
    [
        ("</s>", True, ""),
        ("</s>", False, "</s>"),
        ("[TOOL_CALLS]", True, "[TOOL_CALLS]"),
        ("[TOOL_CALLS]", False, "[TOOL_CALLS]"),
    ],
)
def test_special_tokens(token, skip, text):
    options = DetokenizerOptions(skip_special_tokens=skip)
    assert FACTORY(options, ()).feed(SPECIAL[token]) == text
    assert FACTORY.is_special(SPECIAL[token])


@pytest.mark.parametrize("token_id", [10**6, 2**40])
def test_an_unknown_id_has_no_text(token_id):
    assert FACTORY.token_bytes(token_id) == b""
    assert FACTORY(DetokenizerOptions(), ()).feed(token_id) == ""
