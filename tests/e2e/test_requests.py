"""What a request can ask for, streaming and not, on the real engine."""

from __future__ import annotations

import inspect
import json
import uuid
from typing import Any

import openai
import pytest

from tests.e2e.client import Client, Response, build_request
from tests.e2e.conftest import BACKEDGE_MODEL, PLAIN_MODEL, Fleet
from tests.support import TRANSCRIPTS, encode, tiny_tokenizer
from tools.stack import STOCK_FRONTEND, VLLM_FRONTEND, metric

STREAMED = pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
# With n > 1 Dynamo wants a temperature above 0; this one is too low to matter.
COLD = 0.001
LETTERS = "alpha, beta, gamma, delta, epsilon, zeta, eta, theta."


@pytest.fixture(params=[BACKEDGE_MODEL, PLAIN_MODEL], ids=["in the worker", "in the frontend"])
def client(request: pytest.FixtureRequest, fleet: Fleet) -> Client:
    return Client(fleet.frontend.url, request.param)


def requests_of_any_worker() -> list[str]:
    """Return the tests of this module that need nothing but `client`, to run for other workers."""
    return [
        name
        for name, test in globals().items()
        if name.startswith("test_") and "fleet" not in inspect.signature(test).parameters
    ]


def options(**fields: Any) -> dict[str, Any]:
    return {"metadata": {"backedge": fields}}


@STREAMED
@pytest.mark.parametrize("name", ["parallel_calls", "reasoning_text"])
def test_every_choice_is_whole(client: Client, stream: bool, name: str) -> None:
    transcript = TRANSCRIPTS[name]
    response = client.ask(transcript, stream=stream, n=3, temperature=COLD)
    assert {index: answer.message for index, answer in response.answers.items()} == dict.fromkeys(
        range(3), transcript["expect"]
    )
    ids = [call["id"] for answer in response.answers.values() for call in answer.tool_calls]
    assert len(set(ids)) == len(ids)
    assert response.usage.completion_tokens == 3 * len(encode(transcript["output"]))


@STREAMED
def test_choices_may_finish_at_different_times(client: Client, stream: bool) -> None:
    transcript = TRANSCRIPTS["stop_string"]
    response = client.ask(transcript, stream=stream, n=2, temperature=COLD, stop=["zeta"])
    assert [answer.content for answer in response.answers.values()] == [
        LETTERS.partition("zeta")[0]
    ] * 2


STOPS = [
    pytest.param({"stop": "gamma"}, "alpha, beta, ", "gamma", id="string"),
    pytest.param({"stop": ["zeta", "gamma"]}, "alpha, beta, ", "gamma", id="earliest of a list"),
    pytest.param(
        {"stop": ["amma, d", "gamma, delta", "ma"]}, "alpha, beta, gam", "ma", id="overlapping"
    ),
    pytest.param(
        {"stop": [" beta, gamma, delta, eps"]},
        "alpha,",
        " beta, gamma, delta, eps",
        id="across tokens",
    ),
    pytest.param({"stop": ["not there"]}, LETTERS, None, id="not there"),
    pytest.param({"stop": ["a"], "extra_body": {"min_tokens": 12}}, None, "a", id="min_tokens"),
    pytest.param(
        {"stop": ["gamma"], "extra_body": {"include_stop_str_in_output": True}},
        "alpha, beta, gamma",
        "gamma",
        id="included",
    ),
]


@STREAMED
@pytest.mark.parametrize(("fields", "content", "stop"), STOPS)
def test_stop_strings(
    client: Client, stream: bool, fields: dict[str, Any], content: str | None, stop: str | None
) -> None:
    transcript = TRANSCRIPTS["stop_string"]
    extra = {
        **fields.get("extra_body", {}),
        "chat_template_kwargs": transcript["chat_template_kwargs"],
    }
    response = client.ask(transcript, stream=stream, **{**fields, "extra_body": extra})
    if content is None:
        text = tiny_tokenizer().decode(encode(LETTERS)[:12])
        content = LETTERS[: LETTERS.index("a", len(text))]
    assert (response.answer.content, response.answer.finish_reason, response.stop_reason) == (
        content,
        "stop",
        stop,
    )


@STREAMED
def test_stop_token_ids(client: Client, stream: bool) -> None:
    transcript = TRANSCRIPTS["stop_string"]
    token_id = encode(LETTERS)[4]
    expected = tiny_tokenizer().decode(encode(LETTERS)[:4])
    for fields in (options(stop_token_ids=[token_id]), {"stop": [token_id]}):
        response = client.ask(transcript, stream=stream, **{"stop": None, **fields})
        assert (response.answer.content, response.answer.finish_reason) == (expected, "stop")
        assert response.stop_reason == token_id


@STREAMED
def test_a_stop_token_that_a_grammar_needs_ends_the_answer(client: Client, stream: bool) -> None:
    """vLLM's grammar would offer the token and refuse it, and vLLM give the request up."""
    transcript = TRANSCRIPTS["nested_arguments"]
    [comma] = encode(",")
    fields = {"tool_choice": "required", **options(stop_token_ids=[comma])}
    response = client.ask(transcript, stream=stream, **fields)
    assert (response.answer.finish_reason, response.stop_reason) == ("stop", comma)
    assert not (response.answer.content or "").endswith("</tool_call>")


@STREAMED
def test_max_tokens_and_ignore_eos(client: Client, stream: bool) -> None:
    transcript = TRANSCRIPTS["plain_text"]
    wanted = len(encode(transcript["output"])) + 5
    extra = {"ignore_eos": True, "chat_template_kwargs": transcript["chat_template_kwargs"]}
    response = client.ask(transcript, stream=stream, max_tokens=wanted, extra_body=extra)
    assert response.answer.finish_reason == "length"
    assert response.usage.completion_tokens == wanted
    text = response.answer.content or ""
    assert text.startswith(transcript["expect"]["content"])
    assert "<|im_end|>" not in text
    shown = client.ask(
        transcript,
        stream=stream,
        max_tokens=wanted,
        extra_body={**extra, "skip_special_tokens": False},
    )
    assert "<|im_end|>" in (shown.answer.content or "")


@STREAMED
def test_parallel_tool_calls_false_generates_no_surplus(client: Client, stream: bool) -> None:
    transcript = TRANSCRIPTS["parallel_calls"]
    response = client.ask(transcript, stream=stream, parallel_tool_calls=False)
    assert response.message == {
        **transcript["expect"],
        "tool_calls": transcript["expect"]["tool_calls"][:1],
    }
    assert response.usage.completion_tokens < len(encode(transcript["output"]))


@STREAMED
def test_tool_choice_none_leaves_the_text_alone(client: Client, stream: bool) -> None:
    # The template leaves the tools out then, so this asks for what the model would say anyway.
    transcript = TRANSCRIPTS["tool_call"]
    response = client.ask(transcript, stream=stream, tool_choice="none", max_tokens=30)
    assert response.answer.tool_calls == []
    assert response.answer.finish_reason in ("stop", "length")


@STREAMED
@pytest.mark.parametrize("name", ["multilingual_text", "reasoning_call", "stop_string"])
def test_logprobs_name_every_token(client: Client, stream: bool, name: str) -> None:
    transcript = TRANSCRIPTS[name]
    response = client.ask(transcript, stream=stream, logprobs=True, top_logprobs=2)
    entries = response.answer.logprobs
    assert len(entries) == response.usage.completion_tokens
    text = b"".join(bytes(entry.bytes) for entry in entries).decode()
    assert transcript["output"].startswith(text)
    assert all(len(entry.top_logprobs) == 2 for entry in entries)
    assert all(entry.logprob <= 0.0 for entry in entries)
    assert all(entry.top_logprobs[0].token == entry.token for entry in entries), (
        "greedy: the best is the one taken"
    )


def test_logprobs_without_alternatives_and_as_token_ids(client: Client) -> None:
    transcript = TRANSCRIPTS["plain_text"]
    extra = {
        "return_tokens_as_token_ids": True,
        "chat_template_kwargs": transcript["chat_template_kwargs"],
    }
    entries = client.ask(transcript, logprobs=True, extra_body=extra).answer.logprobs
    assert [entry.token for entry in entries] == [
        f"token_id:{token_id}" for token_id in encode(transcript["output"])
    ]
    assert all(entry.top_logprobs == [] for entry in entries)


def ask_prompt_logprobs(client: Client, *, stream: bool) -> Response:
    fields = {"prompt_logprobs": 2, "nvext": {"extra_fields": ["prompt_logprobs"]}}
    name = "plain_text"
    return client.ask(TRANSCRIPTS[name], stream=stream, max_tokens=2, extra_body=fields)


def test_probabilities_of_the_prompt(client: Client) -> None:
    response = ask_prompt_logprobs(client, stream=False)  # vLLM refuses them in streams
    assert response.prompt_logprobs is not None
    first, *others = response.prompt_logprobs
    assert first is None
    assert len(others) == response.usage.prompt_tokens - 1
    # The token itself, and two alternatives, one of which it may be.
    assert {len(entries) for entries in others} <= {2, 3}
    assert all(entry["logprob"] <= 0.0 for entries in others for entry in entries.values())


@STREAMED
def test_token_ids_are_complete(client: Client, stream: bool) -> None:
    transcript = TRANSCRIPTS["reasoning_call"]
    response = client.ask(transcript, stream=stream, **options(return_token_ids=True))
    assert response.token_ids == encode(transcript["output"])
    both = client.ask(
        transcript, stream=stream, n=2, temperature=COLD, **options(return_token_ids=True)
    )
    assert both.choice_token_ids == {
        "0": encode(transcript["output"]),
        "1": encode(transcript["output"]),
    }


def test_usage_as_the_client_asks(client: Client) -> None:
    transcript = TRANSCRIPTS["reasoning_text"]
    silent = client.ask(transcript, stream_options={"include_usage": False})
    assert silent.usages == []
    final = client.ask(transcript, stream_options={"include_usage": True})
    assert len(final.usages) == 1
    running = client.ask(
        transcript, stream_options={"include_usage": True, "continuous_usage_stats": True}
    )
    counts = [usage.completion_tokens for usage in running.usages]
    assert len(counts) == running.chunks
    assert counts == sorted(counts)
    assert counts[-1] == len(encode(transcript["output"]))
    reasoning = [usage.completion_tokens_details.reasoning_tokens for usage in running.usages]
    assert reasoning[-1] == len(encode(transcript["expect"]["reasoning"]))


def test_cached_tokens(client: Client) -> None:
    transcript = TRANSCRIPTS["nested_arguments"]
    client.ask(transcript)
    again: Response = client.ask(transcript)
    assert again.usage.prompt_tokens_details.cached_tokens >= 192


@STREAMED
def test_hidden_reasoning(client: Client, stream: bool) -> None:
    transcript = TRANSCRIPTS["reasoning_text"]
    response = client.ask(
        transcript, stream=stream, logprobs=True, **options(include_reasoning=False)
    )
    assert response.message == {**transcript["expect"], "reasoning": None}
    shown = b"".join(bytes(entry.bytes) for entry in response.answer.logprobs).decode()
    assert "37" not in shown


@STREAMED
@pytest.mark.parametrize("name", ["json_object", "json_schema_reasoning"])
def test_structured_output_is_json(client: Client, stream: bool, name: str) -> None:
    answer = client.ask(TRANSCRIPTS[name], stream=stream).answer
    assert json.loads(answer.content or "") == json.loads(TRANSCRIPTS[name]["expect"]["content"])


@STREAMED
def test_dynamos_own_metrics_count_every_token(client: Client, fleet: Fleet, stream: bool) -> None:
    transcript = TRANSCRIPTS["reasoning_call"]
    names = ("dynamo_frontend_output_tokens_total", "dynamo_frontend_input_sequence_tokens_sum")
    before = [metric(fleet.frontend.url, name) for name in names]
    usage = client.ask(transcript, stream=stream).usage
    after = [metric(fleet.frontend.url, name) for name in names]
    counted = [int(b - a) for a, b in zip(before, after, strict=True)]
    assert counted == [usage.completion_tokens, usage.prompt_tokens]


@pytest.mark.parametrize(
    ("flag", "command", "processor"),
    [
        ("--vllm-processing", VLLM_FRONTEND, "dynamo"),
        ("--sglang-processing", STOCK_FRONTEND, "vllm"),
    ],
)
def test_dynamos_frontend_with_the_flag_is_the_same(
    fleet: Fleet, flag: str, command: tuple[str, ...], processor: str
) -> None:
    flags = (flag, "--allow-tokenizer-module", "any.module")  # known to ours alone
    frontend = fleet.stack.frontend(*flags, command=command, DYN_CHAT_PROCESSOR=processor)
    fleet.stack.wait_for_model(frontend, BACKEDGE_MODEL)
    # The stock frontend stops in the middle of this one's reasoning.
    transcript = TRANSCRIPTS["stop_in_reasoning"]
    client = Client(frontend.url, BACKEDGE_MODEL)
    assert client.ask(transcript).message == transcript["expect"]
    with pytest.raises(openai.BadRequestError, match="top_logprobs"):
        client.ask(transcript, top_logprobs=2)
    frontend.terminate()
    frontend.reap()


def test_two_clients_with_one_request_id_do_not_end_each_other(fleet: Fleet) -> None:
    """Dynamo takes a request's id from its client, and vLLM ends requests by that id."""
    client = Client(fleet.frontend.url, BACKEDGE_MODEL)
    transcript = TRANSCRIPTS["long_reasoning"]
    request = build_request(transcript, client.model, {})
    headers = {"x-dynamo-request-id": str(uuid.uuid4())}
    streams = [
        client.openai.chat.completions.create(**request, stream=True, extra_headers=headers)
        for _ in range(2)
    ]
    first, second = map(iter, streams)
    read = [next(first), next(second), next(second)]
    streams[0].close()
    read += second
    reasoning = "".join(
        getattr(choice.delta, "reasoning_content", None) or ""
        for chunk in read[1:]
        for choice in chunk.choices
    )
    assert reasoning == transcript["expect"]["reasoning"]
    assert read[-1].choices[0].finish_reason == transcript["expect"]["finish_reason"]
