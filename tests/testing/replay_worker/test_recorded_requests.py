"""A replay worker finds recorded requests by the id in the prompt."""

from __future__ import annotations

import msgspec
import pytest
from backedge.testing.replay_worker.outputs import RecordedRequests
from dynamo.llm.exceptions import InvalidArgument

from tests.recording.test_rerun import CALL, record_call
from tests.support import encode, tiny_tokenizer


def test_the_prompt_names_the_request() -> None:
    other = record_call()
    params = msgspec.structs.replace(other.params, response_id="chatcmpl-test-2")
    other = msgspec.structs.replace(other, params=params, chunks=other.chunks[:1])
    found = RecordedRequests(tiny_tokenizer(), [record_call(), other])
    asked = encode("<|im_start|>user\nchatcmpl-test<|im_end|>")
    assert found.find({"token_ids": asked}) == encode(CALL["output"])
    asked = encode("<|im_start|>user\nchatcmpl-test-2<|im_end|>")
    assert found.find({"token_ids": asked}) == other.chunks[0].chunk.token_ids
    with pytest.raises(InvalidArgument, match="2 recorded requests"):
        found.find({"token_ids": encode("Hi")})
