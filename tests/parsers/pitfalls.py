"""The pitfalls of docs/pitfalls.md that a model's output can show: a table and its runner."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import msgspec
from backedge.parsers.base import ParserNames, ParserRequest
from backedge.parsers.parser_lookup import Kind
from backedge.postprocess import ChoiceDelta, Chunk, DetokenizerOptions, PostprocessParams

from benchmarks.samples.sample import Call, Outcome, Sample
from benchmarks.samples.tokenizers import bpe, encode, load_tokenizer
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

CASES = (
    Pitfall(
        1,
        "arguments before the name",
        hermes('{"arguments": {"a": "x"}, "name": "f"}'),
        calls=(("f", {"a": "x"}),),
        vllm=(
            Outcome(calls=(Call("f", '{"a": "x"}, "name": "f"'),)),
            "hermes streams all that follows the key `arguments`, less one brace",
        ),
    ),
    Pitfall(
        1,
        "forced, parameters before the name",
        '[{"parameters": {"a": "x"}, "name": "f"}]',
        calls=(("f", {"a": "x"}),),
        request={"tool_choice": "required", "json_calls": True},
    ),
    Pitfall(
        2,
        "braces in a string",
        hermes('{"name": "run", "arguments": {"command": "mkdir -p test/{test1,test2}"}}'),
        calls=(("run", {"command": "mkdir -p test/{test1,test2}"}),),
    ),
    Pitfall(
        2,
        "one brace in a string",
        hermes('{"name": "run", "arguments": {"command": "echo }"}}'),
        calls=(("run", {"command": "echo }"}),),
    ),
    Pitfall(
        2,
        "the end marker in a string",
        hermes('{"name": "run", "arguments": {"command": "echo </tool_call> x"}}'),
        calls=(("run", {"command": "echo </tool_call> x"}),),
        vllm=(
            Outcome(calls=(Call("run", '{"command": "echo'),)),
            "hermes ends a call at the first end marker",
        ),
    ),
    Pitfall(
        2,
        "the end marker in an XML string",
        qwen("run", command="echo </tool_call> x"),
        calls=(("run", {"command": "echo </tool_call> x"}),),
        **CODER,
    ),
    Pitfall(2, "JSON in a code block", MARKDOWN, content=MARKDOWN),
    Pitfall(
        3,
        "nested objects",
        hermes('{"name": "f", "arguments": {"o": {"p": {"q": [1, {}]}, "r": {}}}}'),
        calls=(("f", {"o": {"p": {"q": [1, {}]}, "r": {}}}),),
    ),
    Pitfall(
        3,
        "nested objects in XML",
        qwen("f", o='{"p": {}}'),
        calls=(("f", {"o": {"p": {}}}),),
        **CODER,
    ),
    Pitfall(4, "two calls", hermes(*TWO_CALLS), calls=TWO),
    Pitfall(
        4,
        "a call after one without arguments",
        hermes('{"name": "get_time", "arguments": {}}', TWO_CALLS[1]),
        calls=(("get_time", {}), TWO[1]),
    ),
    Pitfall(
        4,
        "an XML call after one without arguments",
        qwen("get_time") + "\n" + qwen("f", a="y", b="2"),
        calls=(("get_time", {}), TWO[1]),
        **CODER,
    ),
    Pitfall(
        5,
        "empty arguments",
        hermes('{"name": "get_time", "arguments": {}}'),
        calls=(("get_time", {}),),
    ),
    Pitfall(5, "no arguments", hermes('{"name": "get_time"}'), calls=(("get_time", {}),)),
    Pitfall(5, "no parameters in XML", qwen("get_time"), calls=(("get_time", {}),), **CODER),
    Pitfall(
        6,
        "two calls in one step",
        qwen("f", a="x") + "\n" + qwen("f", a="y", b="2"),
        calls=TWO,
        **CODER,
    ),
    Pitfall(
        7, "text and two calls", "I call.\n" + hermes(*TWO_CALLS), content="I call.", calls=TWO
    ),
    Pitfall(
        7,
        "text and two XML calls",
        "I call.\n" + qwen("f", a="x") + qwen("f", a="y", b="2"),
        content="I call.",
        calls=TWO,
        **CODER,
    ),
    Pitfall(
        8,
        "the call ends with the output",
        hermes(TWO_CALLS[1]).removesuffix("\n</tool_call>"),
        calls=(TWO[1],),
        engine="length",
        finish_reason="length",
    ),
    Pitfall(
        9,
        "a long argument streams",
        hermes(WRITE_FILE),
        calls=(("run", {"command": "echo one two three; " * 20}),),
        check=streams_arguments,
    ),
    Pitfall(
        9,
        "a long XML argument streams",
        qwen("run", command="echo one two three; " * 20),
        calls=(("run", {"command": "echo one two three; " * 20}),),
        check=streams_arguments,
        **CODER,
    ),
    Pitfall(
        10,
        "umlauts once",
        hermes('{"name": "f", "arguments": {"a": "Münster 你好 👋🏽"}}'),
        calls=(("f", {"a": "Münster 你好 👋🏽"}),),
        check=keeps_text("Münster 你好 👋🏽"),
    ),
    Pitfall(
        10,
        "escapes of the model's own",
        hermes(r'{"name": "f", "arguments": {"a": "M\u00fcnster\n\"x\""}}'),
        calls=(("f", {"a": 'Münster\n"x"'}),),
    ),
    Pitfall(
        10,
        "umlauts once in XML",
        qwen("f", a="Münster 你好 👋🏽"),
        calls=(("f", {"a": "Münster 你好 👋🏽"}),),
        check=keeps_text("Münster 你好 👋🏽"),
        **CODER,
    ),
    Pitfall(
        11,
        "white space around calls",
        f"\n\n{hermes(TWO_CALLS[0])}\n\n\n{hermes(TWO_CALLS[1])}\n\n",
        calls=TWO,
    ),
    Pitfall(11, "white space in text", " Two\n\n lines. ", content=" Two\n\n lines. "),
    Pitfall(
        12,
        "the channel behind the recipient",
        ' to=functions.query_dataset<|channel|>commentary json<|message|>{"q": "x"}<|call|>',
        calls=(("query_dataset", {"q": "x"}),),
        **HARMONY,
    ),
    Pitfall(
        12,
        "reasoning and a call",
        "<|channel|>analysis<|message|>I ask.<|end|><|start|>assistant<|channel|>commentary "
        'to=functions.query_dataset <|constrain|>json<|message|>{"q": "x"}<|call|>',
        reasoning="I ask.",
        calls=(("query_dataset", {"q": "x"}),),
        **HARMONY,
    ),
    Pitfall(
        12,
        "the second call is cut",
        '<|channel|>commentary to=functions.f <|constrain|>json<|message|>{"a": "x"}<|end|>'
        "<|start|>assistant<|channel|>commentary to=functions.query",
        calls=(("f", {"a": "x"}),),
        engine="length",
        **HARMONY,
        vllm=(
            Outcome(
                None,
                "<|start|>assistant<|channel|>commentary to=functions.query",
                (Call("f", {"a": "x"}),),
            ),
            "openai gives out a header that is cut as the text of the answer",
        ),
    ),
    Pitfall(
        13,
        "a string of digits",
        hermes('{"name": "f", "arguments": {"a": "3", "b": 123}}'),
        calls=(("f", {"a": "3", "b": 123}),),
    ),
    Pitfall(
        13,
        "the schema decides",
        qwen("f", a="3", b="123"),
        calls=(("f", {"a": "3", "b": 123}),),
        **CODER,
    ),
    Pitfall(
        14,
        "no call without tool_choice",
        hermes(TWO_CALLS[0]),
        request={"tool_choice": "none"},
        vllm=(Outcome(None, hermes(TWO_CALLS[0])), "shows the markup"),
    ),
    Pitfall(
        14, "no call without tools", hermes(TWO_CALLS[0]), content=hermes(TWO_CALLS[0]), tools=()
    ),
    Pitfall(15, "cut in the name", '<tool_call>\n{"na', engine="length"),
    Pitfall(
        15,
        "cut in the arguments",
        '<tool_call>\n{"name": "f", "arguments": {"a": "x',
        calls=(("f", '{"a": "x'),),
        engine="length",
    ),
    Pitfall(15, "cut behind a call", hermes(TWO_CALLS[0]) + "\n", calls=(TWO[0],), engine="length"),
    Pitfall(
        16,
        "reasoning, then a call at once",
        "<think>Write.</think>" + hermes(TWO_CALLS[0]),
        reasoning="Write.",
        calls=(TWO[0],),
        **THOUGHT,
    ),
    Pitfall(
        16,
        "reasoning, then an XML call at once",
        "<think>Write.</think>" + qwen("f", a="x"),
        reasoning="Write.",
        calls=(TWO[0],),
        **CODER,
        **THOUGHT,
    ),
    Pitfall(
        17,
        "reasoning and content",
        "<think>One.</think>Two.",
        reasoning="One.",
        content="Two.",
        tools=(),
        **THOUGHT,
    ),
    Pitfall(
        18,
        "reasoning, then forced calls",
        '<think>One.</think>[{"name": "f", "parameters": {"a": "x"}}]',
        reasoning="One.",
        calls=(TWO[0],),
        **JSON_CALLS,
    ),
    Pitfall(
        18,
        "reasoning, then a named call",
        '<think>One.</think>{"a": "x"}',
        reasoning="One.",
        calls=(TWO[0],),
        prompt=USER,
        request={"tool_choice": NAMED, "json_calls": True},
    ),
    Pitfall(
        18,
        "reasoning, a call and a stop string",
        "<think>One.</think>" + hermes(TWO_CALLS[0]),
        reasoning="One.",
        calls=(TWO[0],),
        params={"stop": ["</x"]},
        **THOUGHT,
    ),
    Pitfall(
        19,
        "reasoning after a tool's result",
        "<think>\nSo 42.\n</think>\n\nIt is 42.",
        reasoning="\nSo 42.\n",
        content="\n\nIt is 42.",
        prompt=AFTER_TOOL,
        tools=(),
    ),
    Pitfall(
        19,
        "reasoning after a tool's result, with tools",
        "<think>\nSo 42.\n</think>\n\nIt is 42.",
        reasoning="\nSo 42.\n",
        content="\n\nIt is 42.",
        prompt=AFTER_TOOL,
    ),
    Pitfall(20, "JSON without reasoning", '{"a": 1}', content='{"a": 1}', tools=()),
    Pitfall(
        21,
        "the marker in two tokens",
        ("<seed:think>One.", "<", "/seed:think>", "Two."),
        reasoning="One.",
        content="Two.",
        tools=(),
        parsers=(None, "seed_oss"),
        **THOUGHT,
    ),
    Pitfall(
        21,
        "a call without the end of reasoning",
        "<think>I look." + hermes(TWO_CALLS[0]),
        reasoning="I look.",
        calls=(TWO[0],),
        **THOUGHT,
    ),
    Pitfall(
        21,
        "an XML call inside reasoning",
        "<think>I look." + qwen("f", a="x") + "</think>Done.",
        reasoning="I look.",
        content="Done.",
        calls=(TWO[0],),
        **CODER,
        **THOUGHT,
    ),
    Pitfall(
        25,
        "markers that are special tokens",
        "<seed:think>One.</seed:think>Two.",
        reasoning="One.",
        content="Two.",
        tools=(),
        parsers=(None, "seed_oss"),
        special=("<seed:think>", "</seed:think>"),
        **THOUGHT,
    ),
    Pitfall(
        25,
        "the end of the turn in the middle",
        f"One{END} two.",
        content="One two.",
        params={"detokenizer": DetokenizerOptions(skip_special_tokens=True)},
        tools=(),
    ),
    Pitfall(
        25,
        "special tokens asked for",
        f"One{END}<|im_start|> two.",
        content=f"One{END}<|im_start|> two.",
        parsers=(None, None),
        tools=(),
        params={"detokenizer": DetokenizerOptions(False, False)},
    ),
    Pitfall(
        26,
        "a stop string in reasoning",
        "<think>July, END, or May.</think>May END. June.",
        reasoning="July, END, or May.",
        content="May ",
        stop_reason="END",
        tools=(),
        params={"stop": ["END"]},
        check=ended_early,
        **THOUGHT,
    ),
    Pitfall(
        26,
        "a stop string in Harmony's analysis",
        "<|channel|>analysis<|message|>July, END.<|end|>"
        "<|start|>assistant<|channel|>final<|message|>May END. June.",
        reasoning="July, END.",
        content="May ",
        stop_reason="END",
        tools=(),
        params={"stop": ["END"]},
        **HARMONY,
    ),
    Pitfall(
        27,
        "a stop string of many tokens",
        "alpha zeta eta theta iota.",
        content="alpha",
        tools=(),
        stop_reason=" zeta eta theta",
        params={"stop": [" zeta eta theta"]},
    ),
    Pitfall(
        27,
        "no stop string after all",
        "alpha zeta eta then.",
        content="alpha zeta eta then.",
        tools=(),
        params={"stop": [" zeta eta theta"]},
    ),
    Pitfall(
        27,
        "held back at the end",
        "alpha zeta eta",
        content="alpha zeta eta",
        tools=(),
        engine="length",
        params={"stop": [" zeta eta theta"]},
    ),
    Pitfall(
        27,
        "the earliest match",
        "So there it is.",
        content="So t",
        stop_reason="he",
        tools=(),
        params={"stop": ["re", "he"]},
    ),
    Pitfall(
        28,
        "min_tokens",
        "END. END. END.",
        content="END. END. ",
        stop_reason="END",
        tools=(),
        params={"stop": ["END"], "min_tokens": len(encode(bpe(), "END. END."))},
    ),
    Pitfall(
        28,
        "the stop string included",
        "One END. Two.",
        content="One END",
        stop_reason="END",
        tools=(),
        params={"stop": ["END"], "include_stop_str_in_output": True},
    ),
    Pitfall(30, "curly quotes and 是", "“Yes” 是 👋🏽 é", content="“Yes” 是 👋🏽 é", tools=()),
    Pitfall(30, "a null byte", "a\0b", content="a\0b", tools=()),
    Pitfall(
        32,
        "reasoning tokens",
        "<think>One.</think>Two.",
        reasoning="One.",
        content="Two.",
        tools=(),
        check=counts_reasoning(len(encode(bpe(), "One."))),
        **THOUGHT,
    ),
    Pitfall(
        32,
        "Harmony's reasoning tokens",
        "<|channel|>analysis<|message|>One.<|end|><|start|>assistant<|channel|>final<|message|>Two.",
        reasoning="One.",
        content="Two.",
        tools=(),
        check=counts_reasoning(2),
        **HARMONY,
    ),
    Pitfall(
        33,
        "one call only",
        hermes(*TWO_CALLS),
        calls=TWO[:1],
        request={"parallel_tool_calls": False},
        check=ended_early,
    ),
    Pitfall(
        33,
        "the call's index is its place in the answer",
        hermes('{"name": "run", "arguments": {"command": "x"}}'),
        calls=(("run", {"command": "x"}),),
    ),
    Pitfall(
        34,
        "reasoning, text and two calls",
        "<think>One.</think>Two.\n" + hermes(*TWO_CALLS),
        reasoning="One.",
        content="Two.",
        calls=TWO,
        **THOUGHT,
    ),
)


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
