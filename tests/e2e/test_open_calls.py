"""An agent with the openai client whose model writes a malformed call: the next request goes on."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import openai
import pytest
from backedge.templates.open_calls import MARK

from tests.e2e.client import Client, Response
from tests.e2e.conftest import BACKENDS
from tests.support import tiny_tokenizer
from tools.stack import BACKEDGE_FRONTEND, MODEL_NAME, Process, Stack

PARSERS = ("--tool-call-parser", "hermes", "--reasoning-parser", "qwen3")
FIELDS = {"nvext": {"extra_fields": ["malformed_calls", "discarded_tokens"]}}
PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"}}}
TOOL = {"type": "function", "function": {"name": "get_weather", "parameters": PARAMETERS}}
QUESTION = "What is the weather in Rome and in Oslo?"
WHAT_IS_WRONG = "The arguments are no JSON, so nothing was executed. Write the call again."
SUNNY = "Sunny in Rome."
ARGUMENTS = '{"city": , "days": "3"}'
# All that the model wrote before the call's end.
OPEN_ARGUMENTS = ARGUMENTS + "}\n"
TRANSCRIPTS = (
    {
        "id": "question",
        "messages": [{"role": "user", "content": QUESTION}],
        "output": '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Rome"}}\n'
        '</tool_call>\n<tool_call>\n{"name": "get_weather", "arguments": '
        f"{ARGUMENTS}}}\n</tool_call><|im_end|>",
    },
    {
        "id": "results",
        "messages": [
            {"role": "user", "content": QUESTION},
            {"role": "tool", "tool_call_id": "1", "content": SUNNY},
            {"role": "tool", "tool_call_id": "2", "content": WHAT_IS_WRONG},
        ],
        "output": "</think>Once more, then.<|im_end|>",
    },
)
OPEN = [{"index": 1, "reason": "invalid_json"}]


@pytest.fixture(scope="module")
def frontends(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Process]]:
    folder = tmp_path_factory.mktemp("open")
    transcripts = folder / "transcripts"
    transcripts.mkdir()
    (transcripts / "open.jsonl").write_text("\n".join(map(json.dumps, TRANSCRIPTS)))
    with Stack(folder) as stack:
        stack.replay(*PARSERS, "--match", "end", "--transcripts", str(transcripts), wait=False)
        made = {
            name: stack.frontend(*BACKENDS[name], command=BACKEDGE_FRONTEND, wait=False)
            for name in ("huggingface", "vllm", "sglang")
        }
        for frontend in made.values():
            stack.wait_for_model(frontend)
        yield made


def ask(frontend: Process, messages: list[Any], **more: Any) -> Response:
    request = {"messages": messages, "tools": [TOOL]}
    return Client(frontend.url, MODEL_NAME).ask(request, extra_body=FIELDS, **more)


@pytest.mark.parametrize("backend", ["huggingface", "vllm", "sglang"])
def test_the_model_reads_its_open_call_as_it_wrote_it(
    frontends: dict[str, Process], backend: str
) -> None:
    question = [{"role": "user", "content": QUESTION}]
    first = ask(frontends[backend], question)
    assert (first.message["finish_reason"], first.malformed_calls) == ("stop", OPEN)
    calls = first.answer.tool_calls
    assert [call["arguments"] for call in calls] == ['{"city": "Rome"}', OPEN_ARGUMENTS]
    # As docs/clients.md says.
    broken = {call["index"] for call in first.malformed_calls or ()}
    made = [
        {
            "id": call["id"],
            "type": "function",
            "function": {
                "name": call["name"],
                "arguments": json.dumps({MARK: call["arguments"]})
                if number in broken
                else call["arguments"],
            },
        }
        for number, call in enumerate(calls)
    ]
    results = [
        {
            "role": "tool",
            "tool_call_id": call["id"],
            "content": WHAT_IS_WRONG if number in broken else SUNNY,
        }
        for number, call in enumerate(calls)
    ]
    said = {"role": "assistant", "content": None, "tool_calls": made}
    next_ = ask(
        frontends[backend],
        [*question, said, *results],
        metadata={"backedge": {"return_token_ids": True}},
    )
    assert (next_.message["content"], next_.malformed_calls) == ("Once more, then.", [])
    prompt = tiny_tokenizer().decode(next_.prompt_token_ids, skip_special_tokens=False)
    assert f'"arguments": {OPEN_ARGUMENTS}}}\n</tool_call>' in prompt
    assert '"arguments": {"city": "Rome"}}\n</tool_call>' in prompt


def test_dynamo_refuses_the_arguments_as_they_came(frontends: dict[str, Process]) -> None:
    function = {"name": "get_weather", "arguments": OPEN_ARGUMENTS}
    said = {
        "role": "assistant",
        "tool_calls": [{"id": "1", "type": "function", "function": function}],
    }
    result = {"role": "tool", "tool_call_id": "1", "content": WHAT_IS_WRONG}
    with pytest.raises(openai.BadRequestError, match="must be a valid JSON object string"):
        ask(frontends["huggingface"], [{"role": "user", "content": QUESTION}, said, result])


def test_a_whole_answer_has_it_as_content(frontends: dict[str, Process]) -> None:
    response = ask(frontends["huggingface"], [{"role": "user", "content": QUESTION}], stream=False)
    assert [call["arguments"] for call in response.answer.tool_calls] == ['{"city": "Rome"}']
    # Dynamo's reason for an answer with a call.
    assert (response.message["finish_reason"], response.malformed_calls) == ("tool_calls", OPEN)
    assert response.discarded_tokens == 0
    assert ARGUMENTS in response.message["content"]
