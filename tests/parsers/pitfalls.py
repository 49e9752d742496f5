"""Pitfalls: what one is, the syntax that several share, and how one is run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import msgspec
from backedge.parsers.base import ParserNames, ParserRequest
from backedge.parsers.parser_lookup import Kind
from backedge.postprocess import ChoiceDelta, Chunk, DetokenizerOptions, PostprocessParams

from benchmarks.samples.sample import Call, Outcome, Sample
from benchmarks.samples.tokenizers import encode, load_tokenizer
from tests.parsers.invariants import check_deltas, check_tokens
from tests.parsers.sample_model import SampleModel, build_parsers, read_outcome

USER = "<|im_start|>user\nGo on.<|im_end|>\n<|im_start|>assistant\n"
NO_THINKING = USER + "<think>\n\n</think>\n\n"
AFTER_TOOL = (
    "<|im_start|>user\nGo on.<|im_end|>\n<|im_start|>assistant\n<think>\nI ask.\n</think>\n\n"
    '<tool_call>\n{"name": "f", "arguments": {}}\n</tool_call><|im_end|>\n'
    "<|im_start|>user\n<tool_response>\n42\n</tool_response><|im_end|>\n<|im_start|>assistant\n"
)
END = "<|im_end|>"


def tool(name: str, **types: str) -> dict[str, Any]:
    """Return a tool with parameters of these types."""
    properties = {key: {"type": kind} for key, kind in types.items()}
    parameters = {"type": "object", "properties": properties}
    return {"type": "function", "function": {"name": name, "parameters": parameters}}


TOOLS = (
    tool("f", a="string", b="integer", o="object"),
    tool("get_time"),
    tool("run", command="string"),
    tool("query_dataset", q="string"),
)


@dataclass(frozen=True)
class Pitfall:
    """One case.

    output: what the model writes; a tuple's parts are tokenized each on its own.
    calls: name and arguments. engine: the finish_reason that the engine gives;
    with "stop" the last token is the end of the turn. spec: fields of the PostprocessParams.
    request: fields of the ParserRequest. check: more to hold after the run by token.
    vllm: a known difference: what vLLM's parser makes of it, and why. It must be
    removed, or the test fails, as soon as that is no longer so.
    """

    number: int
    name: str
    output: str | tuple[str, ...]
    reasoning: str | None = None
    content: str | None = None
    calls: tuple[tuple[str, Any], ...] = ()
    finish_reason: str = ""
    stop_reason: str | int | None = None
    prompt: str = NO_THINKING
    engine: str = "stop"
    parsers: tuple[str | None, str | None] = ("hermes", "qwen3")
    tools: tuple[dict[str, Any], ...] = TOOLS
    params: dict[str, Any] = field(default_factory=dict)
    request: dict[str, Any] = field(default_factory=dict)
    markers: tuple[str, ...] = ()
    special: tuple[str, ...] = ()
    tokenizer: str = "bpe"
    check: Callable[[SampleModel, ChoiceDelta], None] | None = None
    vllm: tuple[Outcome, str] | None = None

    @property
    def id(self) -> str:
        return f"{self.number}-{self.name.replace(' ', '-')}"

    @property
    def expected(self) -> tuple[Outcome, str, str | int | None]:
        result = Outcome(self.reasoning, self.content, tuple(Call(*call) for call in self.calls))
        default = "tool_calls" if self.calls and self.engine == "stop" else self.engine
        return result, self.finish_reason or default, self.stop_reason


def hermes(*calls: str) -> str:
    """Return calls in Hermes' syntax."""
    return "\n".join(f"<tool_call>\n{call}\n</tool_call>" for call in calls)


def qwen(name: str, **arguments: str) -> str:
    """Return a call in Qwen3 Coder's syntax."""
    parameters = "".join(
        f"<parameter={key}>\n{value}\n</parameter>\n" for key, value in arguments.items()
    )
    return f"<tool_call>\n<function={name}>\n{parameters}</function>\n</tool_call>"


def streams_arguments(model: SampleModel, _whole: ChoiceDelta) -> None:
    """Check that no token of a long argument waits for the next ones."""
    pieces = [call for chunk in model.chunks for delta in chunk for call in delta.delta.tool_calls]
    assert len(pieces) > len(model.chunks) / 2
    assert max(len(call.function.arguments) for call in pieces) < 40


def keeps_text(*texts: str) -> Callable[[SampleModel, ChoiceDelta], None]:
    """Return a check that the arguments hold these texts as the model wrote them."""

    def check(_core: SampleModel, whole: ChoiceDelta) -> None:
        assert all(text in whole.delta.tool_calls[0].function.arguments for text in texts)

    return check


def counts_reasoning(tokens: int) -> Callable[[SampleModel, ChoiceDelta], None]:
    """Return a check of the usage."""

    def check(model: SampleModel, _whole: ChoiceDelta) -> None:
        assert model.post.usage.reasoning_tokens == tokens

    return check


def ended_early(model: SampleModel, _whole: ChoiceDelta) -> None:
    """Check that the engine is told to stop."""
    assert model.post.choices[0].ended_early


WRITE_FILE = '{"name": "run", "arguments": {"command": "' + "echo one two three; " * 20 + '"}}'
TWO_CALLS = (
    '{"name": "f", "arguments": {"a": "x"}}',
    '{"name": "f", "arguments": {"a": "y", "b": 2}}',
)
TWO = (("f", {"a": "x"}), ("f", {"a": "y", "b": 2}))
MARKDOWN = 'Like so:\n```json\n{"name": "f", "arguments": {"a": "x"}}\n```\nDone.'
HARMONY: dict[str, Any] = {
    "tokenizer": "harmony",
    "parsers": ("openai", "openai_gptoss"),
    "prompt": "<|start|>assistant",
}
CODER: dict[str, Any] = {"parsers": ("qwen3_coder", "qwen3")}
THOUGHT: dict[str, Any] = {"prompt": USER}
JSON_CALLS: dict[str, Any] = {
    "request": {"tool_choice": "required", "json_calls": True},
    "prompt": USER,
}
NAMED = {"type": "function", "function": {"name": "f"}}


def build_model(case: Pitfall, kind: Kind = "native") -> SampleModel:
    """Return the model and the request of `case`, as the frontend would set it up."""
    sample = Sample(
        "",
        Outcome(),
        "",
        case.markers,
        case.special,
        tokenizer=case.tokenizer,
        architecture="gpt_oss" if case.tokenizer == "harmony" else None,
    )
    tokenizer = load_tokenizer(sample)
    parsers = build_parsers(sample, ParserNames(*case.parsers), kind) if any(case.parsers) else None
    tool_choice = "auto" if case.tools else "none"
    request = ParserRequest(
        **{"tools": list(case.tools), "tool_choice": tool_choice} | case.request
    )
    prompt = encode(tokenizer, case.prompt)
    settings_: dict[str, Any] = {
        "detokenizer": DetokenizerOptions(spaces_between_special_tokens=False),
        "logprobs": 0,
        "return_token_ids": True,
    } | case.params
    params = PostprocessParams(
        response_id="chatcmpl-1",
        created=1,
        model="m",
        prompt_length=len(prompt),
        parser=request,
        **settings_,
    )
    return SampleModel(tokenizer, parsers, params, prompt)


def count_tokens(case: Pitfall, model: SampleModel) -> list[int]:
    """Return the output's tokens, with the end of the turn where the model ended it."""
    parts = (case.output,) if isinstance(case.output, str) else case.output
    token_ids = [token_id for part in parts for token_id in encode(model.tokenizer, part)]
    if case.engine != "stop" or "".join(parts).endswith("<|call|>"):
        return token_ids
    return token_ids + encode(model.tokenizer, "<|return|>" if case.tokenizer == "harmony" else END)


def with_logprobs(chunks: list[Chunk]) -> list[Chunk]:
    """Return `chunks` with the logprob 0, -1, -2, ... for the tokens in their order."""
    numbered: list[Chunk] = []
    position = 0
    for chunk in chunks:
        logprobs = [-float(position + offset) for offset in range(len(chunk.token_ids))]
        numbered.append(msgspec.structs.replace(chunk, logprobs=logprobs))
        position += len(chunk.token_ids)
    return numbered


def answer(model: SampleModel, chunks: list[Chunk]) -> tuple[Outcome, str | None, str | int | None]:
    """Return what the client gets; check what holds for every answer."""
    whole = model.run(with_logprobs(chunks))
    assert model.failures == []
    check_deltas(model)
    check_tokens(model, whole, [token_id for chunk in chunks for token_id in chunk.token_ids])
    return read_outcome(whole), whole.finish_reason, whole.stop_reason
