"""TensorRT-LLM's parsers behind our interface.

They are the stand-in's (tests/standin), of the same form. Where TensorRT-LLM is installed, its own
are tried as well.
"""

from __future__ import annotations

from typing import Any

import pytest
from backedge.base.errors import UnknownParserError, UnusableParserError
from backedge.engines.trtllm.parsers import TrtllmParsers
from backedge.parsers.base import ParserNames, ParserRequest
from backedge.parsers.parser_lookup import reasoning_format, tool_format
from backedge.parsers.passthrough import PassthroughParser
from tensorrt_llm.llmapi.reasoning_parser import ReasoningParserFactory

from tests.support import (
    TRANSCRIPTS,
    as_whole,
    chunks,
    encode,
    message,
    params,
    parser_request,
    run,
)

BOTH = ParserNames("qwen3", "qwen3")
# Whose output the parsers of these names read.
READABLE = sorted(
    name
    for name, transcript in TRANSCRIPTS.items()
    if not {"stop", "max_tokens", "tool_choice"} & transcript.keys()
)


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    from transformers import AutoTokenizer

    from tests.support import TINY_MODEL

    return AutoTokenizer.from_pretrained(TINY_MODEL)


@pytest.mark.parametrize("size", [1, 3, 10_000])
@pytest.mark.parametrize("name", READABLE)
def test_every_transcript(tokenizer: Any, name: str, size: int) -> None:
    transcript = TRANSCRIPTS[name]
    token_ids = encode(transcript["output"])
    cuts = range(0, len(token_ids), size)
    request = params(parser=parser_request(transcript))
    whole = run(request, chunks(token_ids, cuts), TrtllmParsers(tokenizer, BOTH))
    assert message(whole) == as_whole(transcript["expect"])


def test_reasoning_is_counted(tokenizer: Any) -> None:
    transcript = TRANSCRIPTS["reasoning_text"]
    parser = TrtllmParsers(tokenizer, BOTH)(parser_request(transcript), [])
    assert not parser.in_reasoning, "before its marker"
    *body, last = encode(transcript["output"])
    states = set()
    for token_id in body:
        parser.feed(tokenizer.decode([token_id]), [token_id])
        states.add(parser.in_reasoning)
    parser.finish("", [last])
    assert states == {True, False}
    assert parser.reasoning_tokens == len(encode(transcript["expect"]["reasoning"]))


@pytest.mark.parametrize(
    ("names", "known"), [(ParserNames("nope"), "raw"), (ParserNames(None, "nope"), "deepseek-r1")]
)
def test_unknown_names_are_refused_with_the_known_ones(
    tokenizer: Any, names: ParserNames, known: str
) -> None:
    with pytest.raises(UnknownParserError, match=known):
        TrtllmParsers(tokenizer, names)


def test_a_parser_that_fails_is_refused(tokenizer: Any) -> None:
    with pytest.raises(UnusableParserError, match="RuntimeError: no such luck"):
        TrtllmParsers(tokenizer, ParserNames("broken"))


@pytest.mark.parametrize(("name", "shows"), [("qwen3", False), ("raw", True)])
def test_special_tokens_are_shown_to_those_who_ask(tokenizer: Any, name: str, shows: bool) -> None:
    parsers = TrtllmParsers(tokenizer, ParserNames(name))
    assert parsers.shows_special_tokens(parser_request(TRANSCRIPTS["tool_call"])) is shows
    assert not parsers.shows_special_tokens(ParserRequest())


def test_without_tools_there_is_nothing_to_parse(tokenizer: Any) -> None:
    parser = TrtllmParsers(tokenizer, ParserNames("qwen3"))(ParserRequest(), [])
    assert isinstance(parser, PassthroughParser)


@pytest.mark.parametrize("thinks", [True, False, None])
def test_the_end_of_the_prompt_tells_some_parsers_whether_to_think(
    tokenizer: Any, thinks: bool | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Any] = []
    create = ReasoningParserFactory.create_reasoning_parser

    def create_and_note(name: str, kwargs: dict[str, Any]) -> Any:
        seen.append(kwargs)
        return create(name, kwargs)

    prompt = encode("<think>")
    monkeypatch.setattr(ReasoningParserFactory, "create_reasoning_parser", create_and_note)
    monkeypatch.setattr(
        ReasoningParserFactory, "resolves_thinking_from_prompt", bool, raising=False
    )
    monkeypatch.setattr(
        ReasoningParserFactory,
        "resolve_prefilled_thinking",
        lambda name, tail: thinks if tail == tokenizer.decode(prompt) else "not the prompt",
        raising=False,
    )
    parsers = TrtllmParsers(tokenizer, ParserNames(reasoning="qwen3"))
    parsers(ParserRequest(chat_template_kwargs={"a": 1}), prompt)
    assert seen[-1] == {"a": 1, **({} if thinks is None else {"enable_thinking": thinks})}


# The names of release 1.3.0rc29 that have a linear parser, and the format that it reads.
LINEAR_TOOLS = {
    "qwen3": "hermes",
    "qwen3_coder": "qwen3_coder",
    "kimi_k2": "kimi_k2",
    "kimi_k3": "kimi_k3",
    "deepseek_v3": "deepseek_v3",
    "deepseek_v31": "deepseek_v31",
    "deepseek_v32": "deepseek_v32",
    "deepseek_v4": "deepseek_v4",
    "gemma4": "gemma4",
    "glm4": "glm45",
    "glm47": "glm45",
    "inkling": "inkling",
    "minimax_m2": "minimax_m2",
    "minimax_m3": "minimax_m3",
    "poolside_v1": "poolside_v1",
}
LINEAR_REASONING = {
    "deepseek-r1": "deepseek_r1",
    "deepseek_v4": "deepseek_v4",
    "gemma4": "gemma4",
    "inkling": "inkling",
    "kimi_k2": "kimi_k2",
    "kimi_k25": "kimi_k2",
    "kimi_k3": "kimi_k3",
    "laguna": "poolside_v1",
    "minimax_m2": "minimax_m2",
    "minimax_m2_append_think": "minimax_m2_append_think",
    "minimax_m3": "minimax_m3",
    "nano-v3": "qwen3",
    "nemotron-v3": "qwen3",
    "poolside_v1": "poolside_v1",
    "qwen3": "qwen3",
    "qwen3_5": "qwen3",
}


@pytest.mark.parametrize(("name", "format_name"), LINEAR_TOOLS.items())
def test_tensorrt_llms_names_of_tool_parsers_have_a_linear_one(name: str, format_name: str) -> None:
    found = tool_format(name)
    assert found is not None
    assert found.name == format_name


@pytest.mark.parametrize(("name", "format_name"), LINEAR_REASONING.items())
def test_tensorrt_llms_names_of_reasoning_parsers_have_a_linear_one(
    name: str, format_name: str
) -> None:
    found = reasoning_format(name)
    assert found is not None
    assert found.name == format_name
