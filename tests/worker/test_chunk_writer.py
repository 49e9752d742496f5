"""What a chunk says besides its deltas: the engine's words, once each."""

from backedge.postprocess.chunk_scheduler import ScheduledChunk
from backedge.postprocess.messages import KEY, ChoiceDelta, Delta, PostprocessedChunk, read
from backedge.worker.chunk_writer import PostprocessedWriter


def scheduled(token_ids, finish_reason=None, **fields):
    deltas = [ChoiceDelta(0, Delta(content="a"), finish_reason=finish_reason)]
    return ScheduledChunk(0, token_ids, deltas, finished=finish_reason is not None, **fields)


def test_the_engines_words_go_with_the_next_chunk_of_their_choice():
    writer = PostprocessedWriter()
    writer.add(0, {"index": 0, "token_ids": [1], "log_probs": [0.5], "engine_data": 1, "a": 1})
    writer.add(1, {"index": 1, "token_ids": [9], "engine_data": 9})
    writer.add(0, {"index": 0, "token_ids": [2], "finish_reason": "stop", "engine_data": 2})
    chunk = writer.write(scheduled([1, 2]))
    post = read(PostprocessedChunk, chunk.pop("extra_args")[KEY]) or PostprocessedChunk()
    assert chunk == {"index": 0, "token_ids": [1, 2], "engine_data": 2, "a": 1}
    assert [delta.delta.content for delta in post.deltas] == ["a"]
    assert "engine_data" not in writer.write(scheduled([3]))


def test_dynamo_gets_the_engines_finish_reasons_only():
    for reason, sent in (("tool_calls", "stop"), ("length", "length"), ("stop", "stop")):
        assert PostprocessedWriter().write(scheduled([1], reason))["finish_reason"] == sent


def test_the_encoding_of_a_measured_request_is_timed():
    ticks = iter(range(10))
    chunk = scheduled([1, 2, 3])
    PostprocessedWriter(lambda: float(next(ticks))).write(chunk)
    assert [(time.stage, time.seconds, time.tokens) for time in chunk.times] == [("encode", 1.0, 3)]
