"""A model's building blocks, put together over a routed engine of the tests'."""

import asyncio
from contextlib import asynccontextmanager

import pytest
from backedge.base.errors import SetupError
from backedge.engines.transformers.frontend import HuggingFacePrompts
from backedge.frontend.chat_model import ChatModel
from backedge.frontend.prompt_preprocessor import PromptPreprocessor
from backedge.frontend.prompt_queue import ClientGoneError, PromptQueue
from backedge.guided.call_policy import CallPolicy, ReasoningTags
from backedge.parsers.base import ParserNames
from backedge.parsers.parser_lookup import linear_parsers
from backedge.parsers.passthrough import PassthroughParsers
from backedge.postprocess.messages import KEY, PostprocessParams, read
from backedge.recording.flags import RecordSettings
from backedge.recording.recorder import Recorder
from backedge.recording.recording import RecordedModel
from backedge.recording.redaction import Redactor
from backedge.recording.writer import RecordingWriter
from backedge.tokenization.detokenizer import read_vocabulary
from dynamo.llm.exceptions import InvalidArgument, Unknown, WorkerUnavailable

from tests.frontend.chat_requests import FILES, raw_request
from tests.frontend.doubles import Annotated, Context, Engine, deployment
from tests.support import encode as tokens
from tests.support import tiny_detokenizers, tiny_tokenizer

TEXT = "one, two, three"
OUTPUTS = [
    {"index": 0, "token_ids": tokens(TEXT)},
    {"index": 0, "token_ids": tokens("<|im_end|>"), "finish_reason": "stop"},
]


def model(engine, reasoning=None, tags=None):
    policy = CallPolicy(enabled=False)
    prompts = HuggingFacePrompts(FILES.prompt_token_ids, {}, policy, has_reasoning_parser=False)
    preprocessor = PromptPreprocessor(prompts, FILES, PromptQueue(threads=1), None)
    parsers = linear_parsers(ParserNames(None, reasoning), read_vocabulary(tiny_tokenizer()))
    factories = tiny_detokenizers(), parsers
    return ChatModel(deployment(engine), preprocessor, lambda: factories, reasoning=tags)


def answer(outputs, reasoning=None, **fields):
    """Return the text of the answer, and the request that was sent."""
    engine = Engine(outputs)
    served = model(engine, reasoning)

    async def run():
        return [chunk async for chunk in served.answer(raw_request(**fields), Context())]

    data = [chunk["data"] for chunk in asyncio.run(run()) if "data" in chunk]
    choices = [choice for response in data for choice in response["choices"]]
    return "".join(choice["delta"].get("content") or "" for choice in choices), engine.requests


def test_a_plain_workers_tokens_become_text_here():
    text, (sent,) = answer(OUTPUTS)
    assert text == TEXT
    assert sent["token_ids"] == FILES.prompt_token_ids(raw_request()["messages"], None)
    params = read(PostprocessParams, sent["extra_args"][KEY])
    assert params is not None
    assert params.prompt_length == len(sent["token_ids"])
    assert params.draw is None


def test_a_frontend_that_records_draws_for_its_workers(tmp_path):
    settings = RecordSettings(folder=str(tmp_path))
    served = model(Engine(OUTPUTS))
    writer = RecordingWriter(settings, "frontend")
    served.recorder = Recorder(
        settings,
        writer,
        "frontend",
        RecordedModel(path="m"),
        lambda: Redactor(tiny_detokenizers()),
    )

    async def draws():
        for _ in range(20):
            async with served.prepare(raw_request()) as prepared:
                sent = read(PostprocessParams, prepared.preprocessed["extra_args"][KEY])
                assert sent is not None
                assert sent.draw is not None
                yield sent.draw

    async def run():
        return {draw async for draw in draws()}

    drawn = asyncio.run(run())
    writer.close()
    assert len(drawn) == 20
    assert all(0 <= draw < 1 for draw in drawn)


@pytest.mark.parametrize(
    ("fields", "required"),
    [
        ({"response_format": {"type": "json_object"}}, True),
        ({"guided_regex": "a+", "chat_template_kwargs": {"enable_thinking": False}}, False),
        ({}, None),
    ],
)
def test_a_plain_workers_engine_is_told_of_reasoning_before_a_grammar(fields, required):
    _, (sent,) = answer(OUTPUTS, "qwen3", **fields)
    assert sent.get("require_reasoning") is required


@pytest.mark.parametrize("thinks", [True, False])
def test_a_grammar_begins_with_the_reasoning_that_no_engine_knows(thinks):
    engine = Engine(OUTPUTS)
    tags = ReasoningTags(("<think>",), ("</think>",), decided=False)
    served = model(engine, "qwen3", tags)
    fields = {"guided_regex": "a+", "chat_template_kwargs": {"enable_thinking": thinks}}

    async def run():
        return [chunk async for chunk in served.answer(raw_request(**fields), Context())]

    asyncio.run(run())
    [sent] = engine.requests
    assert "require_reasoning" not in sent
    whole = sent["sampling_options"]["guided_decoding"]["structural_tag"]["format"]
    before, grammar = whole["elements"]
    assert grammar == {"type": "regex", "pattern": "a+"}
    assert before["type"] == ("sequence" if thinks else "optional")


def test_options_in_the_metadata_reach_the_worker():
    metadata = {"backedge": {"stop_token_ids": [5], "return_token_ids": True}}
    _, (sent,) = answer(OUTPUTS, metadata=metadata)
    assert 5 in sent["stop_conditions"]["stop_token_ids"]
    params = read(PostprocessParams, sent["extra_args"][KEY])
    assert params is not None
    assert params.return_token_ids


@pytest.mark.parametrize(
    ("fields", "field"),
    [({"n": "two"}, "n"), ({"stop": [""]}, r"stop\[0\]"), ({"messages": [{}]}, r"messages\[0\]")],
)
def test_a_bad_request_is_400_and_not_sent(fields, field):
    engine = Engine(OUTPUTS)

    async def run():
        async with model(engine).prepare(raw_request(**fields)):
            pass

    with pytest.raises(InvalidArgument, match=field):
        asyncio.run(run())
    assert not engine.requests


def test_a_bad_request_is_answered_with_a_refusal():
    async def run():
        return [chunk async for chunk in model(Engine([])).answer(raw_request(n=0), Context())]

    (refusal,) = asyncio.run(run())
    assert refusal["error"]["class"] == "InvalidArgument"
    assert "`n` must be" in refusal["error"]["public"]["message"]


@pytest.mark.parametrize(
    ("tail", "error"), [([], WorkerUnavailable), ([Annotated(error="out of memory")], Unknown)]
)
def test_a_worker_that_fails_is_an_http_error(tail, error, caplog):
    async def run():
        built = model(Engine([OUTPUTS[0], *tail]))
        return [chunk async for chunk in built.answer(raw_request(), Context())]

    last = asyncio.run(run())[-1]
    assert last["error"]["class"] == error.__name__
    assert "out of memory" not in last["error"]["public"]["message"]
    assert len(caplog.messages) == 1, "a line, no traceback"
    assert caplog.messages[0].startswith("request chatcmpl-")


def test_a_client_that_leaves_before_its_request_is_sent_gets_nothing():
    @asynccontextmanager
    async def leave(request, context):
        raise ClientGoneError
        yield

    async def run():
        factories = tiny_detokenizers(), PassthroughParsers()
        built = ChatModel(deployment(Engine([])), leave, lambda: factories)
        return [chunk async for chunk in built.answer(raw_request(), Context())]

    assert asyncio.run(run()) == []


def test_media_are_counted():
    image = {"type": "image_url", "image_url": {"url": "http://x/y.png"}}
    messages = [{"role": "user", "content": [image, image]}]

    async def run():
        built = model(Engine([]))
        async with built.prepare(raw_request()) as prepared:
            prepared.request.raw["messages"] = messages
            return built.writer(prepared)

    writer = asyncio.run(run())
    assert writer._media == {"image_count": 2}


def test_an_engine_of_the_users_may_route_and_give_bare_outputs():
    class Bare:
        async def generate(self, request, *, context):
            return self._stream()

        async def _stream(self):
            for output in OUTPUTS:
                yield output

    async def run():
        built = model(Engine([]))
        async with built.prepare(raw_request(), Context()) as prepared:
            return [each async for _, each in built.chunks(prepared, Context(), Bare())]

    deltas = [delta.delta.content or "" for chunk in asyncio.run(run()) for delta in chunk.deltas]
    assert "".join(deltas) == TEXT


def test_the_endpoint_of_a_models_workers():
    class Runtime:
        def endpoint(self, path):
            return path

    assert str(deployment(Engine([]), Runtime()).endpoint()) == "dynamo.backend.generate"
    with pytest.raises(SetupError, match="runtime is unknown"):
        deployment(Engine([])).endpoint()
