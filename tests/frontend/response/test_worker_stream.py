"""Who post-processes is decided per chunk: a worker, or the frontend."""

import asyncio
from typing import Any

import pytest
from backedge.frontend.response.worker_stream import (
    HIDDEN_REFUSAL,
    REFUSED,
    StreamReader,
    WorkerError,
)
from backedge.postprocess import Chunk, PostprocessedChunk, Postprocessor
from backedge.postprocess.chunk_scheduler import ChunkScheduler
from backedge.postprocess.delta_builder import aggregate_deltas
from backedge.postprocess.engine_output import parse_engine_output
from backedge.postprocess.messages import KEY, VERSION, encode
from backedge.postprocess.settings import MergeDelays
from dynamo.llm.exceptions import HttpError, InvalidArgument

from tests.frontend.doubles import Annotated, Context, Engine
from tests.support import encode as tokens
from tests.support import params, tiny_detokenizers

TEXT = "one, two, three, four"


def everything(position):
    return True


def nothing(position):
    return False


# Who post-processes which chunk: True for the worker.
PATTERNS = {
    "one by one": lambda position: position % 2 == 0,
    "two by two": lambda position: position % 4 < 2,
    "one plain chunk": lambda position: position != 3,
    "the last is plain": lambda position: position < 8,
    "the first is plain": lambda position: position > 0,
}


def read(outputs, **fields):
    """Return the whole answer, and how often a post-processor was made here."""
    request = params(**fields)
    made, context, deltas = [], Context(), []

    def make():
        made.append(Postprocessor(request, tiny_detokenizers()))
        return made[-1]

    async def run():
        async for _, post in StreamReader(request, make).read(Engine(outputs), {}, context):
            deltas.extend(post.deltas)

    asyncio.run(run())
    return aggregate_deltas(deltas), len(made), context


def outputs(processed, finish_reason="stop", upto=None, **fields):
    """Return the outputs of a worker; it post-processes the tokens that `processed` names."""
    post, found = Postprocessor(params(**fields), tiny_detokenizers()), []
    ids = [*tokens(TEXT), *tokens("<|im_end|>")][:upto]
    for position, token_id in enumerate(ids):
        last = position == len(ids) - 1 and upto is None
        reason = finish_reason if last else None
        output: dict[str, Any] = {"index": 0, "token_ids": [token_id], "finish_reason": reason}
        deltas = post.feed(Chunk(token_ids=[token_id], finish_reason=reason))
        if processed(position):
            output["extra_args"] = {
                KEY: encode(PostprocessedChunk(deltas=deltas, usage=post.usage if last else None))
            }
        found.append(output)
    return found


@pytest.mark.parametrize(
    ("processed", "made"),
    [(everything, 0), (nothing, 1), (lambda position: position < 5, 1)],
    ids=["worker", "frontend", "a plain worker takes over"],
)
def test_the_answer_is_the_same(processed, made):
    whole, count, _ = read(outputs(processed))
    assert (whole.delta.content, whole.finish_reason, count) == (TEXT, "stop", made)


def test_a_post_of_a_newer_version_is_done_here():
    newer = outputs(everything)
    for output in newer:
        output["extra_args"][KEY] = f'{{"version": {VERSION + 1}, "deltas": 5}}'
    whole, made, _ = read(newer)
    assert (whole.delta.content, made) == (TEXT, 1)


UNREADABLE: list[Any] = ["no json", '{"deltas": 5}', 7, [], "", '{"version": 1']


@pytest.mark.parametrize(
    "extra_args",
    [
        *({KEY: post} for post in UNREADABLE),
        {KEY: '{"deltas": [{"index": 1}]}'},
        {KEY: '{"deltas": [{"index": 0, "logprobs": [{"token": "a", "logprob": null}]}]}'},
        "text",
    ],
    ids=repr,
)
@pytest.mark.parametrize("position", [0, 3])
def test_a_post_that_cannot_be_read_ends_the_answer(position, extra_args):
    """Going on, the frontend would send what it does not know, twice, or not at all."""
    broken = outputs(everything)
    broken[position]["extra_args"] = extra_args
    with pytest.raises(WorkerError) as caught:
        read(broken)
    assert not caught.value.retryable


WRONG = [{"index": 1}, {"index": -1}, {"token_ids": [-1]}, {"token_ids": 5}, {"log_probs": "x"}]


@pytest.mark.parametrize("processed", [everything, nothing], ids=["worker", "frontend"])
@pytest.mark.parametrize("fields", WRONG, ids=repr)
def test_a_chunk_of_another_form_ends_the_answer(fields, processed):
    broken = outputs(processed)
    broken[3].update(fields)
    with pytest.raises(WorkerError) as caught:
        read(broken)
    assert not caught.value.retryable


@pytest.mark.parametrize("processed", PATTERNS.values(), ids=PATTERNS)
@pytest.mark.parametrize("stop", [[], ["three"]])
def test_workers_of_both_kinds_may_take_turns(processed, stop):
    whole, _, _ = read(outputs(processed, stop=stop), stop=stop)
    expected = (TEXT, "stop", None) if not stop else ("one, two, ", "stop", "three")
    assert (whole.delta.content, whole.finish_reason, whole.stop_reason) == expected


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
@pytest.mark.parametrize("died_at", range(1, 12))
def test_logprobs_of_a_plain_worker_that_died_are_all_there(died_at, stream):
    """The worker that goes on knows those of its own tokens alone."""
    text, fields = "ab 世界 😀 cd", {"stream": stream, "logprobs": 0, "return_token_ids": True}
    ids = [*tokens(text), *tokens("<|im_end|>")]
    plain = [
        {"index": 0, "token_ids": [id_], "log_probs": [-float(at)], "top_logprobs": [[]]}
        for at, id_ in enumerate(ids)
    ]
    plain[-1]["finish_reason"] = "stop"
    request = params(prompt_length=0, **fields)
    second = ChunkScheduler(Postprocessor(request, tiny_detokenizers()), MergeDelays())
    second.resume(ids[:died_at], 0.0)
    moved = []
    for at in range(died_at, len(ids)):
        second.add(parse_engine_output(plain[at]), 1.0)
        for sent in second.take(1.0):
            post = PostprocessedChunk(deltas=sent.deltas, usage=sent.usage)
            reason = {"finish_reason": "stop"} if sent.finished else {}
            extra = {"extra_args": {KEY: encode(post)}}
            moved.append({"index": 0, "token_ids": sent.token_ids, **reason, **extra})
    whole, _, _ = read([*plain[:died_at], *moved], **fields)
    assert whole.delta.content == text
    assert [entry.logprob for entry in whole.logprobs] == [-float(at) for at in range(len(ids))]


@pytest.mark.parametrize(
    "tail",
    [
        outputs(everything),
        outputs(nothing),
        [ValueError("Unavailable: Stream ended before generation completed")],
        [Annotated(error="no instances")],
    ],
    ids=["of a worker", "of a plain one", "it died", "error"],
)
@pytest.mark.parametrize("processed", [everything, nothing], ids=["worker", "frontend"])
def test_nothing_follows_the_finish(processed, tail):
    whole, _, _ = read([*outputs(processed), *tail])
    assert (whole.delta.content, whole.finish_reason) == (TEXT, "stop")


@pytest.mark.parametrize("processed", [everything, nothing])
def test_probabilities_of_the_prompt_are_not_recorded(processed):
    items = outputs(processed)
    items[-1]["engine_data"] = {"prompt_logprobs": [None], "other": 1}
    recorder: Any = Recorder()
    reader = StreamReader(params(), lambda: Postprocessor(params(), tiny_detokenizers()), recorder)

    async def run():
        return [chunk async for chunk, _ in reader.read(Engine(items), {}, Context())]

    *others, last = asyncio.run(run())
    assert last.prompt_logprobs == [None]
    assert {chunk.prompt_logprobs for chunk in (*others, *recorder.chunks)} == {None}


class Recorder:
    def __init__(self):
        self.chunks = []

    def add(self, chunk, now):
        self.chunks.append(chunk)

    def sent(self, deltas, now):
        pass


def test_a_stop_string_found_here_stops_the_worker():
    whole, _, context = read(outputs(nothing), stop=["three"])
    assert (whole.delta.content, whole.finish_reason, whole.stop_reason) == (
        "one, two, ",
        "stop",
        "three",
    )
    assert context.stopped


def test_a_natural_end_does_not():
    assert not read(outputs(nothing))[2].stopped


@pytest.mark.parametrize(
    ("tail", "retryable"),
    [
        ([ValueError("Unavailable: Stream ended before generation completed")], True),
        ([], True),
        ([Exception("Unavailable: TCP connection to 127.0.0.1:1 failed")], True),
        ([Exception("DeadlineExceeded: TCP request to 127.0.0.1:1 timed out")], True),
        ([Annotated(error="Unavailable: no instances")], True),
        ([Exception("CapacityExhausted: Server overloaded: worker at capacity")], True),
        ([ValueError("DeadlineExceeded: backend response inactivity timeout")], True),
        ([Annotated(error="no instances")], False),
        ([ValueError("Internal: Invalid FinishReason variant: 'weird'")], False),
        ([{"index": 0, "token_ids": [], "finish_reason": "error: out of memory"}], False),
        ([{"index": 0, "token_ids": [], "finish_reason": {"error": "out of memory"}}], False),
        ([TypeError("an argument of Dynamo's")], False),
        ([{"status": "error", "message": "bad"}], False),
    ],
    ids=[
        *("worker died", "silent end", "unreachable", "no answer", "none left", "full", "frozen"),
        *("engine error", "unreadable", "error finish", "on the wire"),
        *("a fault", "no output"),
    ],
)
def test_no_silent_end(tail, retryable):
    with pytest.raises(WorkerError) as caught:
        read([*outputs(everything, upto=4), *tail])
    assert caught.value.retryable is retryable


@pytest.mark.parametrize("after_s", [None, 0.0, 0.01])
@pytest.mark.parametrize(
    "items", [[], [Exception("Unavailable: Stream ended before generation completed")]]
)
def test_a_client_that_has_left_gets_no_error(items, after_s):
    """after_s: how long after the stream's end Dynamo stops the context; None: before it."""
    context = Context()

    async def run():
        reader = StreamReader(params(), lambda: Postprocessor(params(), tiny_detokenizers()))
        if after_s is None:
            context.stop_generating()
        else:
            asyncio.get_running_loop().call_later(after_s, context.stop_generating)
        return [chunk async for chunk in reader.read(Engine(items), {}, context)]

    assert asyncio.run(run()) == []


REFUSAL = '{"message": "Grammar error", "code": 400}'


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("InvalidRequest: " + REFUSAL, 400),
        ("BackendInvalidArgument: " + REFUSAL.replace("400", "422"), 422),
        ("Unknown: " + REFUSAL.replace("400", "500"), None),
        ("Unavailable: Stream ended before generation completed", None),
        ("no colon", None),
    ],
)
def test_what_the_worker_refuses_is_the_requests_fault(text, code):
    with pytest.raises(HttpError if code else WorkerError) as caught:
        read([ValueError(text)])
    if code:
        assert (caught.value.code, caught.value.message) == (code, "Grammar error")


@pytest.mark.parametrize(
    ("error", "shown"),
    [
        *((ValueError(f"{name} TypeError: x"), HIDDEN_REFUSAL) for name in REFUSED),
        (ValueError("InvalidRequest: {broken"), HIDDEN_REFUSAL),
        (InvalidArgument("`seed` is not supported"), "`seed` is not supported"),
    ],
    ids=repr,
)
@pytest.mark.parametrize("upto", [0, 4])
def test_what_dynamo_takes_for_a_refusal_is_one(error, shown, upto):
    with pytest.raises(InvalidArgument) as caught:
        read([*outputs(everything, upto=upto), error])
    assert str(caught.value) == shown
