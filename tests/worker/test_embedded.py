"""The worker that replays transcripts, without Dynamo around it."""

import asyncio
import json

import pytest
from backedge.parsers.errors import SetupError, UnknownParserError
from backedge.postprocess.messages import KEY, PostprocessedChunk, WorkerCard, read
from backedge.postprocess.messages import encode as encode_message
from backedge.tokenization.model_files import ModelFiles
from backedge.worker.metrics import WorkerMetrics
from backedge.worker.replay import worker as replay_worker
from backedge.worker.replay.worker import Recordings, ReplayEngine, Transcript
from dynamo.llm.exceptions import HttpError

from tests.support import EXAMPLES, TINY_MODEL, TRANSCRIPTS, encode, params, tiny_tokenizer

FILES = ModelFiles(TINY_MODEL)
RECORDINGS = Recordings(FILES, replay_worker.read_transcripts(EXAMPLES / "transcripts"))
COUNT = TRANSCRIPTS["cut_text"]
TOKENS = encode(COUNT["output"])


class Context:
    """stop_after: how often the client is still there."""

    def __init__(self, stop_after=10**6):
        self._asked, self._stop_after = 0, stop_after

    def is_stopped(self):
        self._asked += 1
        return self._asked > self._stop_after


def prompt(transcript):
    variables = transcript.get("chat_template_kwargs", {})
    return FILES.encode(
        FILES.template.render(transcript["messages"], transcript.get("tools"), **variables)
    )


def request(transcript=COUNT, *, stop_conditions=None, **groups):
    return {"token_ids": prompt(transcript), "stop_conditions": stop_conditions or {}, **groups}


def replay(asked, context=None, end=(), **options):
    """Return the outputs. end: choices whose work is ended with their first output."""

    async def set_stream_interval():
        engine = ReplayEngine(RECORDINGS.find, eos_token_ids=FILES.eos_token_ids, **options)
        running = engine.start(asked, context or Context())
        outputs = []
        async for output in running.outputs():
            outputs.append(output)
            if output["index"] in end:
                await running.abort(output["index"])
        return outputs

    return asyncio.run(set_stream_interval())


def tokens(outputs, index=0):
    return [
        token_id
        for output in outputs
        if output["index"] == index
        for token_id in output["token_ids"]
    ]


@pytest.mark.parametrize(
    "transcript", TRANSCRIPTS.values(), ids=lambda transcript: transcript["id"]
)
@pytest.mark.parametrize("tokens_per_chunk", [1, 7])
def test_gives_the_transcript_with_the_requests_prompt(transcript, tokens_per_chunk):
    outputs = replay(request(transcript), tokens_per_chunk=tokens_per_chunk)
    assert tokens(outputs) == encode(transcript["output"])
    assert outputs[-1]["finish_reason"] == "stop"
    assert all(len(output["token_ids"]) == tokens_per_chunk for output in outputs[:-1])


EOS = FILES.eos_token_ids[0]
FIFTH = TOKENS[4]
FIRST_FIFTH = TOKENS.index(FIFTH) + 1
# stop conditions, tokens, finish_reason, stop_reason
ENDINGS = [
    ({}, len(TOKENS), "stop", None),
    ({"max_tokens": 5}, 5, "length", None),
    ({"max_tokens": len(TOKENS)}, len(TOKENS), "stop", None),
    ({"stop_token_ids": [FIFTH]}, FIRST_FIFTH, "stop", FIFTH),
    ({"stop_token_ids_hidden": [FIFTH]}, FIRST_FIFTH, "stop", FIFTH),
    ({"stop_token_ids": [EOS]}, len(TOKENS), "stop", None),
    ({"stop_token_ids": [EOS], "ignore_eos": True}, len(TOKENS), "stop", EOS),
]


@pytest.mark.parametrize(("conditions", "length", "finish_reason", "stop_reason"), ENDINGS)
def test_ends_where_the_request_says(conditions, length, finish_reason, stop_reason):
    outputs = replay(request(stop_conditions=conditions))
    assert tokens(outputs) == TOKENS[:length]
    assert outputs[-1]["finish_reason"] == finish_reason
    assert outputs[-1].get("stop_reason") == stop_reason
    usage = {"prompt_tokens": len(prompt(COUNT)), "completion_tokens": length}
    assert usage.items() <= outputs[-1]["completion_usage"].items()


def test_min_tokens_holds_stop_tokens_back():
    outputs = replay(request(stop_conditions={"stop_token_ids": [TOKENS[0]], "min_tokens": 2}))
    assert len(tokens(outputs)) >= 2


def test_all_choices_run_side_by_side():
    outputs = replay(request(sampling_options={"n": 2}))
    assert [output["index"] for output in outputs[:4]] == [0, 1, 0, 1]
    assert tokens(outputs, 0) == tokens(outputs, 1) == TOKENS
    assert outputs[-1]["completion_usage"]["completion_tokens"] == 2 * len(TOKENS)


def test_an_ended_choice_is_generated_no_further():
    outputs = replay(request(sampling_options={"n": 2}), end=[0])
    assert tokens(outputs, 0) == TOKENS[:1]
    assert tokens(outputs, 1) == TOKENS
    assert tokens(replay(request(), end=[0])) == TOKENS[:1]


def test_a_client_that_goes_away_ends_it():
    assert tokens(replay(request(), Context(stop_after=3))) == TOKENS[:3]


def test_the_pace_is_kept():
    loop_s = asyncio.run(seconds(tokens_per_second=200.0, stop_conditions={"max_tokens": 21}))
    assert loop_s >= 20 / 200.0


async def seconds(stop_conditions, **options):
    loop = asyncio.get_running_loop()
    start = loop.time()
    engine = ReplayEngine(RECORDINGS.find, **options)
    async for _ in engine.start(
        request(TRANSCRIPTS["count"], stop_conditions=stop_conditions), Context()
    ).outputs():
        pass
    return loop.time() - start


def test_logprobs_are_there_if_asked_for():
    first = replay(request(output_options={"logprobs": 0}))[0]
    assert first["log_probs"] == [0.0]
    assert first["top_logprobs"][0][0]["token_id"] == first["token_ids"][0]
    assert "log_probs" not in replay(request())[0]


def test_goes_on_where_a_worker_has_died():
    asked = request()
    asked["token_ids"] = asked["token_ids"] + TOKENS[:9]
    assert tokens(replay(asked)) == TOKENS[9:]


def test_packed_token_ids_are_read():
    asked = request()
    asked["token_ids"] = b"".join(token_id.to_bytes(4, "little") for token_id in asked["token_ids"])
    assert tokens(replay(asked)) == TOKENS


def test_an_unknown_prompt_is_refused_with_questions_that_are_known():
    with pytest.raises(HttpError, match="only replays") as caught:
        replay({"token_ids": [1, 2, 3]})
    assert caught.value.code == 400
    assert "What is 17 + 25?" in caught.value.message


def weather(city):
    return f'{{"name": "get_weather", "parameters": {{"city": "{city}"}}}}'


BERGEN = "<think>\nBergen is rainy, so I look.\n</think>"
# transcript, what it writes when its calls are held to JSON
IN_JSON = [
    ("required_choice", f"[{weather('Madrid')}, {weather('Bonn')}]<|im_end|>"),
    ("required_reasoning", f"{BERGEN}[{weather('Bergen')}]<|im_end|>"),
    ("named_choice", '{"city": "Vienna", "unit": "C"}<|im_end|>'),
    ("json_object", TRANSCRIPTS["json_object"]["output"]),
]


@pytest.mark.parametrize(("name", "text"), IN_JSON)
def test_guided_decoding_decides_the_syntax_of_forced_calls(name, text):
    asked = request(TRANSCRIPTS[name], sampling_options={"guided_decoding": {"json": {}}})
    assert tiny_tokenizer().decode(tokens(replay(asked)), skip_special_tokens=False) == text
    asked["sampling_options"] = {"guided_decoding": {"structural_tag": {}}}
    assert tokens(replay(asked)) == encode(TRANSCRIPTS[name]["output"])


def test_two_outputs_for_one_prompt_are_refused():
    same = [Transcript(id=name, messages=COUNT["messages"], output=name) for name in ("one", "two")]
    with pytest.raises(SetupError, match="'one' and 'two'"):
        Recordings(FILES, same)


# lines, part of the message
BAD_FILES = [([], "no .jsonl file"), (["{}"], "line 1"), ([json.dumps(COUNT), "x"], "line 2")]


@pytest.mark.parametrize(("lines", "part"), BAD_FILES)
def test_bad_transcripts_are_named(tmp_path, lines, part):
    if lines:
        (tmp_path / "x.jsonl").write_text("\n".join(lines))
    with pytest.raises(SetupError, match=part):
        replay_worker.read_transcripts(tmp_path)


def build(*arguments):
    return replay_worker.build(replay_worker.arguments().parse_args(arguments), WorkerMetrics())


def generate(worker, asked):
    async def set_stream_interval():
        return [output async for output in worker.generate(asked, Context())]

    return asyncio.run(set_stream_interval())


def test_a_request_with_a_spec_is_postprocessed():
    worker, card = build("--tool-call-parser", "hermes", "--reasoning-parser", "qwen3")
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
    assert card.worker_card == WorkerCard(
        engine="replay",
        engine_version="0.1.0",
        tool_call_parser="hermes",
        reasoning_parser="qwen3",
    )
    assert card.context_length == FILES.context_length


def test_plain_it_is_any_other_worker():
    worker, card = build("--plain", "--served-model-name", "m")
    asked = request()
    asked["extra_args"] = {KEY: encode_message(params(prompt_length=len(asked["token_ids"])))}
    outputs = generate(worker, asked)
    assert tokens(outputs) == TOKENS
    assert all("extra_args" not in output for output in outputs)
    assert (card.name, card.worker_card) == ("m", None)


def test_the_card_can_be_written():
    _, card = build()
    assert card.name == "tiny_model"
    assert card.runtime_config().context_length == FILES.context_length


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["--tool-call-parser", "nonsense"], UnknownParserError),
        (["--tokens-per-chunk", "0"], SetupError),
        (["--tokens-per-second", "-1"], SetupError),
        (["--transcripts", "/nonexistent"], SetupError),
        (["--model", "/nonexistent"], SetupError),
    ],
)
def test_flags_that_cannot_be_end_the_worker_at_start(arguments, error):
    with pytest.raises(error):
        build(*arguments)
