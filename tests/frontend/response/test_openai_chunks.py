"""OpenAI chunks, their usage and Dynamo's metrics."""

import json

import pytest
from backedge.frontend.response.openai_chunks import OpenAIChunkWriter
from backedge.postprocess import Chunk, PostprocessedChunk
from backedge.postprocess.messages import ChoiceDelta, Delta, MalformedCall, TokenLogprob, Usage

from tests.support import params


def test_the_closing_usage_comes_once_behind_the_last_choice():
    request = params(n=2, include_usage=True, continuous_usage_stats=True)
    writer = OpenAIChunkWriter(request, {}, [])
    sent = []
    for index in range(2):
        post = PostprocessedChunk(
            deltas=[ChoiceDelta(index, finish_reason="stop")], usage=Usage(1, index + 1)
        )
        sent.append(
            [envelope["data"] for envelope in writer.write(Chunk(index=index, token_ids=[7]), post)]
        )
    assert [[len(response["choices"]) for response in responses] for responses in sent] == [
        [1],
        [1, 0],
    ]


def write(processed, chunk=None, media=None, **fields):
    writer = OpenAIChunkWriter(params(**fields), media or {}, [])
    return list(writer.write(chunk or Chunk(token_ids=[7, 8]), processed))


def test_one_envelope_of_a_chunk_carries_the_metrics():
    deltas = [ChoiceDelta(0, Delta(reasoning_content="a")), ChoiceDelta(0, Delta(content="b"))]
    sent = write(PostprocessedChunk(deltas=deltas), media={"image_count": 2}, prompt_length=5)
    metrics = [annotated["data"].get("llm_metrics") for annotated in sent]
    assert metrics == [
        {"input_tokens": 5, "output_tokens": 2, "chunk_tokens": 2, "image_count": 2},
        None,
    ]
    assert [annotated["data"]["choices"][0]["delta"] for annotated in sent] == [
        {"reasoning_content": "a"},
        {"content": "b"},
    ]


def test_a_chunk_that_shows_nothing_still_counts():
    (sent,) = write(PostprocessedChunk(usage=Usage(1, 2, cached_tokens=1)))
    assert sent["event"] == "llm_metrics"
    metrics = json.loads(sent["comment"][0])
    assert (metrics["chunk_tokens"], metrics["cached_tokens"]) == (2, 1)


@pytest.mark.parametrize(
    ("n", "extension"), [(1, {"completion_token_ids": [7]}), (2, {"choice_token_ids": {"0": [7]}})]
)
def test_token_ids_are_told_apart_by_choice(n, extension):
    delta = ChoiceDelta(0, Delta(content="x"), token_ids=[7], stop_reason="x")
    (sent,) = write(PostprocessedChunk(deltas=[delta]), n=n)
    assert sent["data"]["nvext"] == {**extension, "stop_reason": "x"}


def test_the_first_chunk_has_the_prompt_of_a_client_that_asks_for_token_ids():
    deltas = [ChoiceDelta(0, Delta(content=text), token_ids=[7]) for text in "ab"]
    for prompt in ([], [1, 2]):
        writer = OpenAIChunkWriter(params(), {}, prompt)
        sent = list(writer.write(Chunk(token_ids=[7]), PostprocessedChunk(deltas=deltas)))
        prompts = [one["data"]["nvext"].get("prompt_token_ids") for one in sent]
        assert prompts == [prompt or None, None]


def test_without_a_stream_usage_and_logprobs_are_in_the_answer():
    logprob = TokenLogprob("x", -0.5, [120], [])
    delta = ChoiceDelta(0, Delta(content="x"), finish_reason="stop", logprobs=[logprob])
    (sent,) = write(PostprocessedChunk(deltas=[delta], usage=Usage(3, 2)), stream=False)
    assert sent["data"]["usage"]["total_tokens"] == 5
    assert sent["data"]["choices"][0]["logprobs"] == {
        "content": [{"token": "x", "logprob": -0.5, "bytes": [120], "top_logprobs": []}]
    }


@pytest.mark.parametrize(
    ("stream", "extra_fields", "root", "extension"),
    [
        (False, [], True, False),
        (False, ["prompt_logprobs"], True, True),
        (True, ["prompt_logprobs"], False, True),
        (True, [], False, False),
    ],
)
def test_probabilities_of_the_prompt_are_where_dynamo_has_them(
    stream, extra_fields, root, extension
):
    found = [None, {"5": {"logprob": -1.0}}]
    writer = OpenAIChunkWriter(params(stream=stream), {}, [], extra_fields)
    post = PostprocessedChunk(deltas=[ChoiceDelta(0, finish_reason="stop")])
    (sent,) = writer.write(Chunk(token_ids=[7], prompt_logprobs=found), post)
    assert sent["data"].get("prompt_logprobs") == (found if root else None)
    nvext = sent["data"].get("nvext", {})
    assert nvext.get("prompt_logprobs") == (found if extension else None)


CALL_FIELDS = ["malformed_calls", "discarded_tokens"]
OPEN = {"index": 1, "reason": "extra_text"}


def end(index, calls):
    """The end of a choice, as a worker of this version sends it."""
    found = [MalformedCall(*call) for call in calls]
    return ChoiceDelta(index, finish_reason="stop", malformed_calls=found, discarded_tokens=9)


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("calls", [[], [(1, "extra_text")]])
@pytest.mark.parametrize("asked", [[], *([name] for name in CALL_FIELDS), CALL_FIELDS])
def test_a_client_gets_what_it_asks_for_of_malformed_calls(stream, calls, asked):
    writer = OpenAIChunkWriter(params(stream=stream), {}, [], asked)
    (sent,) = writer.write(Chunk(token_ids=[7]), PostprocessedChunk(deltas=[end(0, calls)]))
    told = {"malformed_calls": [OPEN] if calls else [], "discarded_tokens": 9}
    assert sent["data"].get("nvext", {}) == {name: told[name] for name in asked}


def test_an_older_worker_reports_no_malformed_calls():
    writer = OpenAIChunkWriter(params(), {}, [], CALL_FIELDS)
    older = ChoiceDelta(0, finish_reason="stop")
    (sent,) = writer.write(Chunk(token_ids=[7]), PostprocessedChunk(deltas=[older]))
    assert "nvext" not in sent["data"]


@pytest.mark.parametrize("stream", [True, False])
def test_malformed_calls_of_several_choices_name_theirs(stream):
    writer = OpenAIChunkWriter(params(n=2, stream=stream), {}, [], ["malformed_calls"])
    told = []
    for index in (1, 0):
        chunk = Chunk(index=index, token_ids=[7], prompt_logprobs=[None])
        post = PostprocessedChunk(deltas=[end(index, [(1, "extra_text")])])
        told += [one["data"]["nvext"]["malformed_calls"] for one in writer.write(chunk, post)]
    first, second = {**OPEN, "choice": 1}, {**OPEN, "choice": 0}
    # Without a stream, Dynamo keeps the last list.
    assert told == [[first], [second] if stream else [first, second]]
