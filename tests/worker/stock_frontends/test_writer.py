"""Chunks with text: the engine's words, its finish, and logprobs beside their tokens."""

from backedge.postprocess.chunk_scheduler import ScheduledChunk
from backedge.postprocess.messages import ChoiceDelta, Delta
from backedge.worker.stock_frontends import StockWriter

from tests.support import encode, tiny_detokenizers

A, B = encode("ab")


def scheduled(token_ids, text, finish_reason=None, stop_reason=None, index=0):
    delta = ChoiceDelta(index, Delta(content=text), finish_reason, stop_reason)
    return ScheduledChunk(index, token_ids, [delta], finished=finish_reason is not None)


def top(token_id, logprob, token=None):
    return {"rank": 1, "token_id": token_id, "logprob": logprob, "token": token}


def test_text_stands_beside_its_tokens():
    writer = StockWriter(tiny_detokenizers())
    writer.add(0, {"index": 0, "token_ids": [A], "completion_usage": {"prompt_tokens": 3}})
    writer.add(0, {"index": 0, "token_ids": [B], "finish_reason": "length", "engine_data": {}})
    first = writer.write(scheduled([A], "a"))
    assert first == {"index": 0, "token_ids": [A], "text": "a"}
    assert writer.write(scheduled([B], "b", "length")) == {
        "index": 0,
        "token_ids": [B],
        "text": "b",
        "finish_reason": "length",
        "completion_usage": {"prompt_tokens": 3},
        "engine_data": {},
    }, "what the engine says at the end goes with the end"


def test_what_the_engine_says_before_the_end_goes_at_once():
    writer = StockWriter(tiny_detokenizers())
    writer.add(0, {"index": 0, "token_ids": [A], "completion_usage": {"prompt_tokens": 3}})
    assert writer.write(scheduled([A], "a"))["completion_usage"] == {"prompt_tokens": 3}


def test_the_finish_is_the_engines_unless_a_stop_string_was_first():
    for own, stop_reason, expected in (
        (
            {"finish_reason": "stop", "stop_reason": 7},
            7,
            {"finish_reason": "stop", "stop_reason": 7},
        ),
        ({"finish_reason": "cancelled"}, None, {"finish_reason": "cancelled"}),
        ({"finish_reason": "length"}, "END", {"finish_reason": "stop", "stop_reason": "END"}),
        ({}, "END", {"finish_reason": "stop", "stop_reason": "END"}),
        ({}, None, {"finish_reason": "stop"}),
    ):
        writer = StockWriter(tiny_detokenizers())
        writer.add(0, {"index": 0, "token_ids": [A], **own})
        chunk = writer.write(scheduled([A], "", "stop", stop_reason))
        assert {name: chunk[name] for name in chunk if "reason" in name} == expected


def test_logprobs_go_with_their_tokens_and_name_them():
    writer = StockWriter(tiny_detokenizers())
    for token_id, logprob, name in ((A, -0.5, "a"), (B, -1.5, None), (A, -2.5, "a")):
        writer.add(0, {
            "index": 0, "token_ids": [token_id], "log_probs": [logprob],
            "top_logprobs": [[top(B, -9.0, "b"), top(token_id, logprob, name)]],
        })  # fmt: skip
    chunks = [writer.write(scheduled([A, B], "ab")), writer.write(scheduled([A], "a"))]
    assert [chunk["log_probs"] for chunk in chunks] == [[-0.5, -1.5], [-2.5]]
    assert [chunk["tokens"] for chunk in chunks] == [["a", "b"], ["a"]]
    assert [len(chunk["top_logprobs"]) for chunk in chunks] == [2, 1]


def test_tokens_without_logprobs_have_none_and_move_no_others():
    writer = StockWriter(tiny_detokenizers())
    writer.add(0, {"token_ids": [A], "log_probs": [-0.5]})
    writer.add(0, {"token_ids": [B, B]})
    writer.add(0, {"token_ids": [A], "log_probs": [-2.5]})
    writer.add(1, {"token_ids": [A]})
    assert "log_probs" not in writer.write(scheduled([A, B], "ab"))
    assert "log_probs" not in writer.write(scheduled([B], "b"))
    assert writer.write(scheduled([A], "a"))["log_probs"] == [-2.5]
    assert "log_probs" not in writer.write(scheduled([A], "a", index=1))
