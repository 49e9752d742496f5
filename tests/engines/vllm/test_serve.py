"""Our parsers in vLLM's own server, without the server; tests/e2e/test_servers.py has one."""

from __future__ import annotations

import functools
from types import SimpleNamespace
from typing import Any

import pytest
from backedge.base import server_names
from backedge.engines.vllm import serve
from backedge.engines.vllm.serve_model import ServedModel
from backedge.parsers.base import ParserNames
from backedge.parsers.formats.catalog import FORMATS
from hypothesis import given
from hypothesis import strategies as st
from transformers import AutoTokenizer
from vllm.entrypoints.generate.base.protocol import DeltaMessage
from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionRequest
from vllm.entrypoints.openai.responses.protocol import ResponsesRequest
from vllm.exceptions import VLLMValidationError
from vllm.sampling_params import StructuredOutputsParams
from vllm.tool_parsers.tool_strict_level import ToolStrictLevel

from benchmarks.samples.tool_calls import TOOL_CALLS
from tests.support import TINY_MODEL, TRANSCRIPTS, as_whole, cut, encode

END = encode("<|im_end|>")[0]
OPEN_THOUGHT = encode("<|im_start|>assistant\n<think>\n")
NO_THOUGHT = encode("<|im_start|>assistant\n<think>\n\n</think>\n\n")


@functools.cache
def tokenizer() -> Any:
    return AutoTokenizer.from_pretrained(TINY_MODEL)


def build(
    names: ParserNames, level: ToolStrictLevel = ToolStrictLevel.AUTO, template: str | None = None
) -> type[serve.ServedParser]:
    """Return the parsers of a server that has started with the example model."""
    config = SimpleNamespace(
        tokenizer=str(TINY_MODEL),
        tokenizer_revision=None,
        try_get_generation_config=lambda: {"eos_token_id": [END]},
    )
    loaded = ServedModel(names, level)
    loaded.load(tokenizer(), config, template)

    class Served(serve.ServedParser):
        model = loaded
        tool_parser_cls = serve.ToolNames if names.tool_call else None
        reasoning_parser_cls = serve.ReasoningInGrammar if names.reasoning else None

    return Served


SERVED = build(ParserNames("auto", "auto"))


def parser_for(request: Any, served: type[serve.ServedParser] = SERVED) -> serve.ServedParser:
    """Return a parser of one choice, as vLLM's server makes it."""
    return served(tokenizer(), request.tools, chat_template_kwargs=request.chat_template_kwargs)


def ask(**fields: Any) -> ChatCompletionRequest:
    return ChatCompletionRequest(**{"messages": [{"role": "user", "content": "Hi"}], **fields})


def request_of(transcript: dict[str, Any]) -> ChatCompletionRequest:
    names = "messages tools tool_choice stop max_tokens response_format chat_template_kwargs"
    return ask(**{name: transcript[name] for name in names.split() if name in transcript})


def add(total: dict[str, Any], message: DeltaMessage | None) -> None:
    """Add a delta as a client does."""
    if message is None:
        return
    total["reasoning"] += message.reasoning or ""
    total["content"] += message.content or ""
    for call in message.tool_calls:
        if call.index == len(total["tool_calls"]):
            assert call.id
            assert call.type == "function"
            total["tool_calls"].append({"name": call.function.name, "arguments": ""})
        total["tool_calls"][call.index]["arguments"] += call.function.arguments


def stream(
    parser: serve.ServedParser,
    request: ChatCompletionRequest,
    parts: list[list[int]],
    prompt: list[int],
) -> dict[str, Any]:
    total: dict[str, Any] = {"reasoning": "", "content": "", "tool_calls": []}
    for number, part in enumerate(parts, 1):
        add(
            total,
            parser.parse_delta(
                # vLLM's own text, which ours do not read.
                "unread",
                part,
                request,
                prompt,
                finished=number == len(parts),
            ),
        )
    return total


def whole(
    parser: serve.ServedParser, request: ChatCompletionRequest, ids: list[int], prompt: list[int]
) -> dict[str, Any]:
    token = serve.PROMPT.set(prompt)
    reasoning, content, calls = parser.parse("unread", request, model_output_token_ids=ids)
    serve.PROMPT.reset(token)
    found = [{"name": call.name, "arguments": call.arguments} for call in calls or ()]
    assert all(call.id for call in calls or ())
    return {"reasoning": reasoning or "", "content": content or "", "tool_calls": found}


def message_of(expected: dict[str, Any]) -> dict[str, Any]:
    return {name: expected[name] or type_() for name, type_ in KINDS.items()}


KINDS = {"reasoning": str, "content": str, "tool_calls": list}
# vLLM's server searches reasoning for stop strings, too; the test of the server has this one.
READ = [each for each in TRANSCRIPTS.values() if each["id"] != "stop_in_reasoning"]


def engine_output(transcript: dict[str, Any]) -> list[int]:
    """Return the tokens of vLLM's engine, which ends at a stop string."""
    ids = encode(transcript["output"])[: transcript.get("max_tokens")]
    ends = [
        length
        for length in range(1, len(ids) + 1)
        for stop in transcript.get("stop", ())
        if stop in tokenizer().decode(ids[:length])
    ]
    return ids[: min(ends, default=len(ids))]


@pytest.mark.parametrize("transcript", READ, ids=lambda each: each["id"])
@given(cuts=st.sets(st.integers(1, 900)))
def test_any_deltas_are_the_workers_answer(transcript: dict[str, Any], cuts: set[int]) -> None:
    request, ids = request_of(transcript), engine_output(transcript)
    answer = stream(parser_for(request), request, cut(ids, cuts), [])
    assert answer == message_of(transcript["expect"])


@pytest.mark.parametrize("transcript", READ, ids=lambda each: each["id"])
def test_a_whole_answer_is_the_workers(transcript: dict[str, Any]) -> None:
    request, ids = request_of(transcript), engine_output(transcript)
    parser = parser_for(request)
    assert whole(parser, request, ids, []) == message_of(as_whole(transcript["expect"]))


SAMPLES = {
    key: sample
    for key, sample in TOOL_CALLS.items()
    # Some formats need tokens that the example model does not have.
    if key.split()[0] in {*server_names.TOOL_CALL_PARSERS} - {"openai", "kimi_k3", "muse_glimmer"}
}


@pytest.mark.parametrize("key", SAMPLES)
@given(cuts=st.sets(st.integers(1, 200)))
def test_every_format_reads_any_deltas(key: str, cuts: set[int]) -> None:
    sample, name = SAMPLES[key], key.split(maxsplit=1)[0]
    request = ask(tools=sample.tools)
    served = served_by(name)
    ids = encode(sample.output)
    answer = stream(parser_for(request, served), request, cut(ids, cuts), [])
    assert answer == whole(parser_for(request, served), request, ids, [])
    assert [call["name"] for call in answer["tool_calls"]] == ["add_note"]


@functools.cache
def served_by(name: str) -> type[serve.ServedParser]:
    return build(ParserNames(name, None))


def test_a_thought_that_the_prompt_opens() -> None:
    request, ids = ask(), encode("I think.\n</think>\n\nYes.")
    for prompt, reasoning in ((OPEN_THOUGHT, "I think.\n"), (NO_THOUGHT, "")):
        answer = stream(parser_for(request), request, [ids], prompt)
        assert answer["reasoning"] == reasoning
        assert whole(parser_for(request), request, ids, prompt)["reasoning"] == reasoning


@pytest.mark.parametrize("included", [True, False])
def test_reasoning_tokens_are_counted_if_they_are_not_sent(included: bool) -> None:
    request, ids = ask(include_reasoning=included), encode("<think>\nI think.\n</think>\nYes.")
    parser = parser_for(request)
    answer = stream(parser, request, [[token] for token in ids], [])
    assert bool(answer["reasoning"]) is included
    assert parser.count_reasoning_tokens(ids) == len(encode("\nI think.\n"))


def test_a_template_of_the_servers_flag_decides() -> None:
    template = (
        "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content or '' }}"
        "{% for c in m.tool_calls or [] %}<tool_call>\n<function={{ c.function.name }}>\n"
        "{% for k, v in c.function.arguments.items() %}<parameter={{ k }}>\n{{ v }}\n</parameter>\n"
        "{% endfor %}</function>\n</tool_call>{% endfor %}<|im_end|>\n{% endfor %}"
        "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}{{ tools and '' }}"
    )
    assert build(ParserNames("auto", None), template=template).model.parsers.name == "qwen3_coder"
    assert build(ParserNames("auto", None)).model.parsers.name == "hermes"


[TOOL] = TRANSCRIPTS["tool_call"]["tools"]
STRICT = {**TOOL, "function": {**TOOL["function"], "strict": True}}
NAMED = {"type": "function", "function": {"name": "get_weather"}}
FLAT = {"type": "function", **TOOL["function"]}


@pytest.mark.parametrize(
    ("request_", "is_constrained"),
    [
        (ask(tools=[TOOL]), False),
        (ask(tools=[STRICT]), True),
        (ask(tools=[TOOL], parallel_tool_calls=False), True),
        (ask(tools=[TOOL], tool_choice="required"), True),
        (ask(tools=[TOOL], tool_choice=NAMED), True),
        (ask(tools=[STRICT], tool_choice="none"), False),
        (ResponsesRequest(input="Hi", tools=[FLAT]), False),
        (ResponsesRequest(input="Hi", tools=[FLAT], tool_choice="required"), True),
        (
            ResponsesRequest(
                input="Hi", tools=[FLAT], tool_choice={"type": "function", "name": "get_weather"}
            ),
            True,
        ),
    ],
)
def test_which_requests_get_a_grammar_of_calls(request_: Any, is_constrained: bool) -> None:
    adjusted = parser_for(request_).adjust_request(request_)
    constraint = adjusted.extract_structured_outputs()
    assert (constraint is not None) is is_constrained
    if constraint is not None:
        assert "get_weather" in constraint.structural_tag


def test_the_servers_strict_level_constrains_every_call() -> None:
    request = ask(tools=[TOOL])
    served = build(ParserNames("hermes", None), ToolStrictLevel.FUNCTION)
    assert parser_for(request, served).adjust_request(request).structured_outputs


def test_a_clients_own_constraint_stays() -> None:
    request = ask(tools=[STRICT], response_format={"type": "json_object"})
    parser_for(request).adjust_request(request)
    assert request.response_format is not None
    forced = ask(tools=[TOOL], response_format={"type": "json_object"}, tool_choice="required")
    parser_for(forced).adjust_request(forced)
    assert forced.response_format is None


def test_a_grammar_lets_the_model_reason() -> None:
    request = ask(structured_outputs=StructuredOutputsParams(choice=["yes", "no"]))
    SERVED.model.let_reason(request, OPEN_THOUGHT)
    tag = request.structured_outputs.structural_tag
    assert "</think>" in tag
    assert '"yes"' in tag


def test_a_grammar_is_alone_where_the_prompt_ends_reasoning() -> None:
    request = ask(structured_outputs=StructuredOutputsParams(choice=["yes", "no"]))
    SERVED.model.let_reason(request, NO_THOUGHT)
    assert "think" not in request.structured_outputs.structural_tag


def test_a_grammar_without_reasoning_stays() -> None:
    request = ask(structured_outputs=StructuredOutputsParams(choice=["yes", "no"]))
    served_by("hermes").model.let_reason(request, [])
    assert request.structured_outputs.choice == ["yes", "no"]


def test_a_wrong_schema_is_refused() -> None:
    tool = {"type": "function", "function": {"name": "f", "parameters": {"type": "nothing"}}}
    request = ask(tools=[tool], tool_choice="required")
    with pytest.raises(VLLMValidationError, match="parameters"):
        parser_for(request).adjust_request(request)


def test_the_names_are_those_of_the_catalog() -> None:
    tools = {each.name for each in FORMATS if each.parses_tools}
    reasoning = {each.name for each in FORMATS if each.parses_reasoning}
    assert sorted(tools) == server_names.TOOL_CALL_PARSERS
    assert sorted(reasoning) == server_names.REASONING_PARSERS


REFUSED = {
    "vLLM's reasoning": (
        {"tool_parser_name": "backedge", "reasoning_parser_name": "qwen3"},
        "'qwen3' is vLLM's parser",
    ),
    "vLLM's calls": (
        {"tool_parser_name": "hermes", "reasoning_parser_name": "backedge_qwen3"},
        "'hermes' is vLLM's parser",
    ),
    "gpt-oss": ({"tool_parser_name": "backedge", "is_harmony": True}, "gpt-oss"),
}


@pytest.mark.parametrize(("options", "reason"), REFUSED.values(), ids=REFUSED)
def test_a_server_does_not_start(options: dict[str, Any], reason: str) -> None:
    with pytest.raises(SystemExit, match=reason):
        serve.find_parser(**options, enable_auto_tools=True)


@pytest.mark.parametrize("level", ["auto", "function", None])
def test_a_server_may_name_no_level(level: str | None) -> None:
    found = serve.find_parser(
        tool_parser_name="backedge_hermes", enable_auto_tools=True, tool_strict_level=level
    )
    assert issubclass(found, serve.ServedParser)
    assert found.tool_parser_cls is serve.ToolNames
