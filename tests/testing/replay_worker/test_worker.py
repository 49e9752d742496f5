"""The replay worker: its handler, and what it says of its model."""

import asyncio
import importlib.metadata
import json
from types import SimpleNamespace

import pytest
from backedge.postprocess.messages import KEY, PostprocessedChunk, WorkerCard, read
from backedge.postprocess.messages import encode as encode_message
from backedge.testing.replay_worker.flags import build_flag_parser, build_worker
from dynamo.llm.exceptions import InvalidArgument

from tests.support import TRANSCRIPTS, params
from tests.testing.replay_worker.recordings import FILES, TOKENS, Context, request, tokens

OWN = importlib.metadata.version("backedge")


def build(*arguments):
    return build_worker(build_flag_parser().parse_args(arguments))


def read_card(worker):
    """Return the worker's card on the model's card; None: there is none."""
    entries: dict[str, str] = {}
    config = SimpleNamespace(set_engine_specific=entries.__setitem__)
    asyncio.run(worker.publish_worker_card(config))
    return read(WorkerCard, json.loads(entries.get(KEY, "null")))


def generate(worker, asked):
    async def run():
        return [output async for output in worker.generate(asked, Context())]

    return asyncio.run(run())


def test_a_request_with_params_is_postprocessed():
    worker = build("--tool-call-parser", "hermes", "--reasoning-parser", "qwen3")
    asked = request(TRANSCRIPTS["reasoning_text"])
    asked["extra_args"] = {
        KEY: encode_message(params(prompt_length=len(asked["token_ids"]), stream=False))
    }
    first, whole = generate(worker, asked)
    assert read(PostprocessedChunk, first["extra_args"][KEY]) == PostprocessedChunk(), (
        "the first tokens go at once, for the router"
    )
    post = read(PostprocessedChunk, whole["extra_args"][KEY])
    assert post is not None
    delta = post.deltas[0].delta
    assert delta.reasoning_content == TRANSCRIPTS["reasoning_text"]["expect"]["reasoning"]
    assert read_card(worker) == WorkerCard(
        engine="replay",
        engine_version=OWN,
        tool_call_parser="hermes",
        reasoning_parser="qwen3",
        backedge_version=OWN,
    )
    assert worker.context_length == FILES.context_length


def test_a_request_of_a_stock_frontend_gets_its_text():
    asked = {**request(TRANSCRIPTS["plain_text"]), "mdc_sum": "1"}
    for flags, has_text in ((), True), (("--postprocess-stock-frontends", "off"), False):
        worker = build(*flags)
        outputs = generate(worker, dict(asked))
        assert all(("text" in output) is has_text for output in outputs)
        if has_text:
            text = "".join(output["text"] for output in outputs)
            assert text == TRANSCRIPTS["plain_text"]["expect"]["content"]


def test_it_refuses_what_all_workers_refuse_that_post_process():
    asked = {**request(TRANSCRIPTS["plain_text"]), "sampling_options": {"best_of": 3}}
    with pytest.raises(InvalidArgument, match="best_of"):
        generate(build(), dict(asked))
    assert generate(build("--plain"), dict(asked))


def test_its_first_line_has_what_matters_and_no_repr(caplog):
    with caplog.at_level("INFO"):
        build("--tool-call-parser", "hermes", "--reasoning-parser", "qwen3")
        build("--plain")
    [line] = [text for text in caplog.messages if "post-processes in this worker" in text]
    assert line == (
        f"backedge {OWN} post-processes in this worker of replay {OWN}: linear parsers "
        "qwen3+hermes, detokenizer table, tokenizer tokenizers.Tokenizer, inline, on error "
        "degrade, malformed calls open, merge delays content 100 ms reasoning 200 ms tools 500 ms "
        "tokens 1000 ms, stock frontends on, recordings none"
    )
    assert f"backedge {OWN}, a plain replay worker: frontends post-process" in caplog.messages


UNKNOWN = {"token_ids": [1, 2, 3]}
# flags, what is asked, part of the message
REFUSED = [
    ((), UNKNOWN, "Ask one of these"),
    (("--plain",), UNKNOWN, "Ask one of these"),
    ((), {**UNKNOWN, "eos_token_ids": 3}, "eos_token_ids"),
]


@pytest.mark.parametrize(("flags", "asked", "part"), REFUSED)
def test_what_it_cannot_answer_is_a_400_with_one_traceback(flags, asked, part):
    with pytest.raises(InvalidArgument, match=part) as caught:
        generate(build(*flags), dict(asked))
    assert caught.value.__suppress_context__


def test_plain_it_is_any_other_worker():
    worker = build("--plain")
    asked = request()
    asked["extra_args"] = {KEY: encode_message(params(prompt_length=len(asked["token_ids"])))}
    outputs = generate(worker, asked)
    assert tokens(outputs) == TOKENS
    assert all("extra_args" not in output for output in outputs)
    assert read_card(worker) is None


def test_the_card_can_be_written():
    config = asyncio.run(build().build_runtime_config())
    assert config.context_length == FILES.context_length
