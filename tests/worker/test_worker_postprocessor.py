"""`WorkerPostprocessor` and `read_params`, with an engine's outputs given."""

import asyncio

import msgspec
import pytest
from backedge.base.errors import ParserFailedError
from backedge.parsers.passthrough import PassthroughParsers
from backedge.postprocess.delta_builder import aggregate_deltas
from backedge.postprocess.messages import KEY, VERSION, PostprocessedChunk, encode, read
from backedge.postprocess.settings import MERGE_DELAYS, PostprocessSettings
from backedge.worker.backend import InlineBackend
from backedge.worker.engine_request import EngineRequestHandle
from backedge.worker.request_stream import WorkerPostprocessor, read_params

from tests.support import encode as tokens
from tests.support import params, tiny_detokenizers
from tests.worker.scripted import BrokenParsers

TEXT = "one, two, three, four"
IDS = [*tokens(TEXT), *tokens("<|im_end|>")]


def engine_outputs(ids, index=0, finish_reason="stop"):
    return [
        {
            "index": index,
            "token_ids": [token_id],
            "log_probs": [-0.5],
            "finish_reason": finish_reason if position == len(ids) else None,
            "completion_usage": {"prompt_tokens": 7, "prompt_tokens_details": {"cached_tokens": 3}},
        }
        for position, token_id in enumerate(ids, 1)
    ]


def process(
    outputs, token_ids=(), parsers=None, on_error="degrade", delays=MERGE_DELAYS["lowest"], **fields
):
    """Return what the worker sends, the choices it aborted, and the failures reported."""
    ended: list[int] = []
    failures: list[ParserFailedError] = []

    async def stream():
        for output in outputs:
            yield output
            await asyncio.sleep(0)  # as between the steps of an engine

    class Running(EngineRequestHandle):
        async def abort(self, index):
            ended.append(index)

        def set_stream_interval(self, index, tokens):
            pass

    async def run():
        settings = PostprocessSettings(delays=delays, on_error=on_error)
        backend = InlineBackend(
            tiny_detokenizers(), parsers or PassthroughParsers(), settings, failures.append
        )
        worker = WorkerPostprocessor(backend)
        return [
            output
            async for output in worker.stream(
                stream(), params(**fields), list(token_ids), Running()
            )
        ]

    return asyncio.run(run()), ended, failures


def posts(sent):
    return [read(PostprocessedChunk, output["extra_args"][KEY]) for output in sent]


def content(sent, index=0):
    return aggregate_deltas(
        [delta for post in posts(sent) for delta in post.deltas if delta.index == index]
    ).delta.content


def test_streaming_keeps_every_token_and_takes_the_logprobs_out():
    sent, ended, _ = process(engine_outputs(IDS))
    assert [token_id for output in sent for token_id in output["token_ids"]] == IDS
    assert content(sent) == TEXT
    assert ended == []
    assert not any("log_probs" in output for output in sent)
    usage = posts(sent)[-1].usage
    assert (usage.prompt_tokens, usage.completion_tokens, usage.cached_tokens) == (7, len(IDS), 3)
    assert all(post.usage is None for post in posts(sent)[:-1])


def test_without_a_stream_the_first_tokens_and_then_all_the_others():
    outputs = [
        output
        for pair in zip(engine_outputs(IDS), engine_outputs(IDS, 1), strict=True)
        for output in pair
    ]
    sent, _, _ = process(outputs, stream=False, n=2)
    parts = [(0, IDS[:1]), (1, IDS[:1]), (0, IDS[1:]), (1, IDS[1:])]
    assert [(output["index"], output["token_ids"]) for output in sent] == parts
    assert [len(post.deltas) for post in posts(sent)] == [0, 0, 1, 1]
    assert [content(sent, index) for index in range(2)] == [TEXT, TEXT]
    assert [post.usage and post.usage.completion_tokens for post in posts(sent)] == [
        None,
        None,
        None,
        2 * len(IDS),
    ]


@pytest.mark.parametrize("stream", [True, False])
def test_a_stop_string_ends_the_choice_and_its_generation(stream):
    sent, ended, _ = process(engine_outputs(IDS), stream=stream, stop=["three"])
    assert content(sent) == "one, two, "
    assert (sent[-1]["finish_reason"], sent[-1]["stop_reason"], ended) == ("stop", "three", [0])


def test_one_choice_ends_the_other_goes_on():
    longer = [*tokens("one, two, seven, three"), *tokens("<|im_end|>")]
    outputs = [*engine_outputs(IDS[:-1], 0, None), *engine_outputs(longer, 1)]
    sent, ended, _ = process(outputs, n=2, stop=["three"])
    assert (content(sent, 0), content(sent, 1), ended) == (
        "one, two, ",
        "one, two, seven, ",
        [0, 1],
    )


@pytest.mark.parametrize("stop", [[], ["two, thr"], ["four"]])
@pytest.mark.parametrize("died_at", range(1, len(IDS)))
def test_a_migrated_request_goes_on_where_it_was(died_at, stop):
    prompt = tokens("Count:")
    fields = {"prompt_length": len(prompt), "stop": stop}
    before, _, _ = process(engine_outputs(IDS[:died_at], finish_reason=None), prompt, **fields)
    after, _, _ = process(engine_outputs(IDS[died_at:]), [*prompt, *IDS[:died_at]], **fields)
    whole, _, _ = process(engine_outputs(IDS), prompt, **fields)
    deltas = [delta for post in posts(before + after) for delta in post.deltas]
    assert "".join(delta.delta.content or "" for delta in deltas) == content(whole)
    assert deltas[-1].finish_reason == "stop"
    assert posts(after)[-1].usage.completion_tokens == posts(whole)[-1].usage.completion_tokens
    if not any(delta.finish_reason for post in posts(before) for delta in post.deltas):
        assert posts(after)[-1].usage.prompt_tokens == 7 - died_at, (
            "the engine counts them as prompt"
        )


@pytest.mark.parametrize("message", ["error: out of memory", "error"])
def test_an_engine_error_passes_untouched(message):
    output = {"index": 0, "token_ids": [], "finish_reason": message}
    assert process([dict(output)])[0] == [output]


def test_a_broken_parser_costs_its_structure_only():
    sent, ended, failures = process(engine_outputs(IDS), parsers=BrokenParsers())
    assert content(sent) == TEXT
    assert ended == []
    assert len(failures) == 1
    assert "'broken' failed on request chatcmpl-test at output token 4: KeyError" in str(
        failures[0]
    )


def test_or_the_request_if_so_chosen():
    sent, ended, failures = process(engine_outputs(IDS), parsers=BrokenParsers(), on_error="fail")
    assert sent[-1]["finish_reason"].startswith("error: parser 'broken' failed")
    assert (ended, len(failures)) == ([0], 1)


@pytest.mark.parametrize(
    "extra_args",
    [
        None,
        {},
        {KEY: None},
        {KEY: "no json"},
        {KEY: '{"version": 1}'},
        {KEY: f'{{"version": {VERSION + 1}, "x": 1}}'},
    ],
)
def test_requests_without_params_we_can_read_pass(extra_args):
    assert read_params({"extra_args": extra_args}) is None


def test_params_survive_the_wire():
    request = params(stop=["a"], logprobs=2)
    assert read_params({"extra_args": {KEY: encode(request), "other": 1}}) == request
    newer = msgspec.json.decode(encode(request)) | {"a_field_of_later": 1}
    assert read_params({"extra_args": {KEY: msgspec.json.encode(newer).decode()}}) == request
