"""Prints how the work grows with the size of what strangers wrote: python -m tests.hostile.growth

Eleven tables at 10, 40 and 160 KB: each format's parser on what it likes least of its own markers,
each function of a frontend that walks a request, on the field that it walks, what recognizes a
kept turn, what a frontend does to an answer and to two turns of a conversation, and the spelling of
answers that Dynamo reads again, the markers in a text that no parser reads, the grammars of other
frontends, which a worker measures, the grammars of calls, and a checkpoint's description of its
answers.
`test_growth.py` finds functions that no table reaches. Time is the CPU's, the least of three runs;
the last column is the growth over sixteen times the size, 1.0 if it is linear. Exit status 1 if one
grows by more than `TOLERANCE`.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import functools
import itertools
import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from backedge.base.errors import BackedgeError
from backedge.base.gc_freeze import freeze_loaded
from backedge.frontend.media_requests import has_media
from backedge.frontend.prompt_queue import PromptQueue
from backedge.frontend.request.chat_request import decode_chat_request
from backedge.frontend.response.inert_content import spell_inert
from backedge.frontend.turns.conversation import digest_conversation
from backedge.frontend.turns.flags import TurnSettings
from backedge.guided.call_policy import ReasoningTags
from backedge.parsers.base import ParserRequest
from backedge.parsers.format import Format
from backedge.parsers.formats.catalog import FORMATS
from backedge.parsers.linear_parsers import LinearParsers, Vocabulary
from backedge.parsers.response_template import compile_description, name_description
from backedge.parsers.structural_tag import build_tag
from backedge.postprocess.raw_text import RawTexts
from backedge.worker.request_check import check_engine_fields
from dynamo.llm.exceptions import DynamoException

from tests.engines.frontends.all_edges import card, load
from tests.engines.frontends.bad_requests import USER, tool
from tests.frontend.doubles import Card, Context, Engine
from tests.frontend.turns.conversations import Agent, drop_reasoning, result_of
from tests.hostile.large_fields import (
    FIELDS,
    LEVELS,
    Fields,
    call,
    choices,
    defined,
    entries,
    good,
    properties,
    words,
)
from tests.parsers.families.family import TOOLS
from tests.parsers.made_up import MADE_UP
from tests.parsers.test_linear_cost import BEHIND, SIGNS, pieces_of
from tests.support import encode, write

SIZES = (10_000, 40_000, 160_000)
TOLERANCE = 2.0
RUNS = 3
# Arguments of numbers, which are compared by their values.
NUMBERS: dict[str, Callable[[int], Fields]] = {
    "earlier arguments, fractions": lambda size: call("[" + "1.5," * (size // 4) + "1]"),
    "earlier arguments, exponents": lambda size: call("[" + "1e308," * (size // 6) + "1]"),
    "earlier arguments, digits": lambda size: call("9" * size),
}
CALL = '<tool_call>\n{"name": "get_weather", "arguments": %s}\n</tool_call>'
TOOL = tool(properties(100), "get_weather")
# What a model writes, and the fields of the request that shape the answer.
ANSWERS: dict[str, tuple[Callable[[int], str], Fields]] = {
    "words": (words, {}),
    "one word": (lambda size: "x" * size, {}),
    "reasoning": (lambda size: f"<think>{words(size)}</think>", {}),
    "hidden reasoning": (
        lambda size: f"<think>{words(size)}</think>",
        {"metadata": {"backedge": {"include_reasoning": False}}},
    ),
    "reasoning before a stop string": (
        lambda size: f"{words(size)}</think>{words(size)}",
        {"stop": ["word end"], "chat_template_kwargs": {"enable_thinking": True}},
    ),
    "reasoning without an end": (lambda size: "<think>" + words(size), {}),
    "a call": (lambda size: CALL % json.dumps(entries(size)), {"tools": [TOOL]}),
    "a cut call": (
        lambda size: (CALL % json.dumps(entries(size)))[: size // 2],
        {"tools": [TOOL], "max_tokens": 9},
    ),
    "a forced call": (
        lambda size: json.dumps([{"name": "get_weather", "parameters": entries(size)}]),
        {"tools": [TOOL], "tool_choice": "required"},
    ),
    "calls": (lambda size: (CALL % "{}") * (size // 80), {"tools": [TOOL]}),
    "calls without tools": (lambda size: (CALL % "{}") * (size // 80), {}),
    "beginnings of calls": (lambda size: "<tool_call" * (size // 10), {"tools": [TOOL]}),
    "half surrogate pairs": (lambda size: "\\ud83d" * (size // 6), {}),
    "beginnings of a stop string": (words, {"stop": ["word " * 20 + "end"]}),
    "a thousand stop strings": (words, {"stop": [f"{n:04}" for n in range(1000)]}),
    "logprobs": (words, {"logprobs": True, "top_logprobs": 5}),
    "token ids": (words, {"metadata": {"backedge": {"return_token_ids": True}}}),
    "objects": (lambda size: '{"name": ' * (size // 9), {}),
    "objects in a fence": (lambda size: '```\n{, "name"  : ' * (size // 16), {"tools": [TOOL]}),
}
# Text in which markers are searched.
MARKERS = ("<tool_call>", "</tool_call>", "[", "<")
RAW: dict[str, Callable[[int], str]] = {
    "words": words,
    "beginnings": lambda size: "<tool_" * (size // 6),
    "markers": lambda size: "<tool_call>" * (size // 11),
}
# The thought and the arguments of a turn that is kept.
KEPT: dict[str, Callable[[int], tuple[str, str]]] = {
    "a thought": lambda size: (words(size), "{}"),
    "a thought of one word": lambda size: ("x" * size, "{}"),
    "arguments": lambda size: ("", json.dumps(entries(size))),
    "arguments of one text": lambda size: ("", json.dumps({"text": words(size)})),
}
# Content of answers that Dynamo reads again.
AGAIN: dict[str, Callable[[int], str]] = {
    "words": words,
    "tags": lambda size: "<a" * (size // 2),
    "names": lambda size: ', "name"  ' * (size // 10),
    "fences": lambda size: "\n```" * (size // 4),
    "objects": lambda size: '{"name":' * (size // 8),
    "lists": lambda size: "[a(" * (size // 3),
    "JSON": lambda size: json.dumps(entries(size)),
}
# Less than this is noise.
LEAST_S = 0.002


def measure(function: Callable[[], object]) -> float:
    """Return the CPU time of a call in seconds."""
    times = []
    for _ in range(RUNS):
        began = time.process_time()
        with contextlib.suppress(BackedgeError, DynamoException):
            function()
        times.append(time.process_time() - began)
    return min(times)


def parse(format_: Format, unit: Sequence[str], size: int) -> None:
    """Parse so many characters of the pieces of `unit`, again and again."""
    parser = LinearParsers(format_, None, Vocabulary({}))(
        ParserRequest(tools=list(TOOLS), tool_choice="auto"), []
    )
    for piece in itertools.islice(itertools.cycle(unit), size * len(unit) // len("".join(unit))):
        parser.feed(piece, [0])
    parser.finish(cut=True)


def find_worst(format_: Format) -> list[str]:
    """Return the pieces that cost the format's parser most."""
    units = [
        [piece for piece in (marker, behind) if piece]
        for marker in pieces_of(format_)
        for behind in ((*BEHIND, " ") if marker not in SIGNS else ("",))
    ]
    costs = []
    for unit in units:
        began = time.process_time()
        parse(format_, unit, SIZES[0] // 4)
        costs.append((time.process_time() - began, unit))
    return max(costs)[1]


def measure_formats() -> Iterator[tuple[str, list[float]]]:
    """Yield the times of each format's parser."""
    for format_ in FORMATS:
        unit = find_worst(format_)
        times = [measure(functools.partial(parse, format_, unit, size)) for size in SIZES]
        yield f"{format_.name}: {json.dumps(''.join(unit))}", times


FLAGS = argparse.Namespace(tool_call_parser=None, reasoning_parser=None, chat_template=None)
PLAIN = Card(
    {"tool_call_parser": "hermes", "reasoning_parser": "qwen3", "context_length": 1_000_000}
)


def measure_fields(
    served: Card = card("vllm", 1_000_000),  # noqa: B008 - never changed
) -> Iterator[tuple[str, list[float]]]:
    """Yield the times to prepare a request with each field."""
    with asyncio.Runner() as runner:
        queue = PromptQueue(threads=1)
        model = runner.run(load("huggingface", FLAGS, queue, served))
        if served is PLAIN:  # as with a format of which no engine knows the reasoning
            tags = ReasoningTags(("<think>",), ("</think>",), decided=False)
            model.grammar_start = model.grammar_start._replace(tags=tags)

        async def prepare(body: bytes) -> None:
            async with model.prepare(json.loads(body)):
                pass

        def run(body: bytes) -> None:
            runner.run(prepare(body))

        for name, build in FIELDS.items():
            bodies = [json.dumps({"model": "tiny", **build(size)}).encode() for size in SIZES]
            yield name, [measure(functools.partial(run, body)) for body in bodies]


def measure_turns() -> Iterator[tuple[str, list[float]]]:
    """Yield the times to recognize a conversation, and its media, with each field."""

    def run(fields: Fields) -> None:
        request = decode_chat_request({"model": "tiny", **fields})
        digest_conversation(request, None)
        has_media(request)

    for name, build in (FIELDS | NUMBERS).items():
        yield name, [measure(functools.partial(run, build(size))) for size in SIZES]


def send_answer(text: str, asked: Fields) -> Iterator[dict[str, Any]]:
    """Yield the outputs of a plain worker's engine, of some tokens each."""
    token_ids = encode(text)
    top = [{"rank": 1, "token_id": token_ids[0], "logprob": -1.0}]
    for some in (token_ids[at : at + 8] for at in range(0, len(token_ids), 8)):
        output: dict[str, Any] = {"index": 0, "token_ids": some}
        if "logprobs" in asked:
            output |= {"log_probs": [-1.0] * len(some), "top_logprobs": [top] * len(some)}
        yield output
    finish_reason = "length" if "max_tokens" in asked else "stop"
    yield {"index": 0, "token_ids": [], "finish_reason": finish_reason}


def measure_answers() -> Iterator[tuple[str, list[float]]]:
    """Yield the times to answer from a plain worker's tokens, streamed and in one piece."""
    outputs: list[dict[str, Any]] = []
    with asyncio.Runner() as runner:
        queue = PromptQueue(threads=1)
        model = runner.run(load("huggingface", FLAGS, queue, PLAIN, engine=Engine(outputs)))

        async def answer(fields: Fields) -> None:
            async for item in model.answer({"model": "tiny", **fields}, Context()):
                assert "error" not in item, item

        for (name, (build, fields)), stream in itertools.product(ANSWERS.items(), (True, False)):
            times = []
            for size in SIZES:
                outputs[:] = send_answer(build(size), fields)
                asked = good(**{"chat_template_kwargs": {"enable_thinking": False}, **fields})
                asked["stream"] = stream
                times.append(measure(lambda: runner.run(answer(asked))))  # noqa: B023 - runs at once
            yield f"{name}{', streamed' if stream else ''}", times


def measure_conversations() -> Iterator[tuple[str, list[float]]]:
    """Yield the times of two turns: an answer that is kept, and a request that restores it."""

    def talk(agent: Agent, thought: str, arguments: str) -> None:
        output = f"<think>\n{thought}\n</think>\n\n{CALL % arguments}"
        message = agent.ask([USER], output)
        agent.ask([USER, drop_reasoning(message), result_of(message)], "ok")

    for name, build in KEPT.items():
        agent = Agent(TurnSettings("exact"), 1 << 26, context_length=1_000_000)
        yield (
            name,
            [measure(functools.partial(talk, agent, *build(size))) for size in SIZES],
        )


def measure_raw() -> Iterator[tuple[str, list[float]]]:
    """Yield the times to find markers in a text in one piece."""

    def read(text: str) -> None:
        raw = RawTexts(MARKERS)(ParserRequest(), [])
        raw.feed(text, [0])
        raw.take(whole=True)

    for name, build in RAW.items():
        yield name, [measure(functools.partial(read, build(size))) for size in SIZES]


def measure_spelling() -> Iterator[tuple[str, list[float]]]:
    """Yield, for each kind of text, the times of the parser name that takes longest."""
    for name, build in AGAIN.items():
        texts = [build(size) for size in SIZES]
        times = [
            [measure(functools.partial(spell_inert, text, format_.name)) for text in texts]
            for format_ in FORMATS
        ]
        yield name, max(times, key=lambda each: each[-1])


# Constraints as Dynamo's frontends send them, by their names in its requests.
CONSTRAINTS = ("json", "regex", "grammar", "structural_tag")
FOREIGN: dict[str, Callable[[int], Fields]] = {
    name: build for name, build in FIELDS.items() if name.startswith(("guided", "struct"))
}


def measure_foreign() -> Iterator[tuple[str, list[float]]]:
    """Yield the times in which a worker measures a constraint."""

    def run(fields: Fields) -> None:
        tag = fields.get("response_format")
        found = {name: fields.get(f"guided_{name}", tag) for name in CONSTRAINTS}
        check_engine_fields({"sampling_options": {"guided_decoding": found}}, None)

    for name, build in FOREIGN.items():
        yield name, [measure(functools.partial(run, build(size))) for size in SIZES]


def deep(size: int) -> Fields:
    """Return a schema of about so many bytes as JSON, nested as deep as is allowed."""
    lists: Fields = {"type": "string"}
    for _ in range(LEVELS):
        lists = {"type": "array", "items": lists}
    named = {f"p{number:06}": lists for number in range(size // len(json.dumps(lists)) + 1)}
    return {"type": "object", "properties": named}


# Parameters of which the grammar of a forced call is made.
PARAMETERS: dict[str, Callable[[int], Fields]] = {
    "strings": properties,
    "strings and others": lambda size: {**properties(size), "additionalProperties": True},
    "references": defined,
    "lists": deep,
    "a long name": lambda size: {"properties": {"x" * size: {}}, "additionalProperties": True},
}


def measure_grammars() -> Iterator[tuple[str, list[float]]]:
    """Yield, for each kind of parameters, the times of the format that takes longest."""
    for name, build in PARAMETERS.items():
        schemas = [build(size) for size in SIZES]
        times = [
            [
                measure(functools.partial(build_tag, format_, [("f", schema)], forced=True))
                for schema in schemas
            ]
            for format_ in FORMATS
        ]
        yield name, max(times, key=lambda each: each[-1])


# The edge of a call in a checkpoint's description.
EDGES: dict[str, Callable[[int], Fields]] = {
    "close, line breaks": lambda size: {"close": "<" + "\n" * min(size // 1000, 60) + ">"},
    "close, alternatives": lambda size: {"close": choices(size // 2)},
    "close, a long one": lambda size: {"close": words(size // 2)},
    "close_pattern, groups": lambda size: {"close_pattern": "(?:a|b)?" * (size // 100)},
    "open_pattern, alternatives": lambda size: {"open_pattern": "|".join(choices(size // 2))},
}


def measure_descriptions() -> Iterator[tuple[str, list[float]]]:
    """Yield the times to read a description, and to make its grammar of a forced call."""

    def run(fields: Fields) -> None:
        edges = {name.partition("_")[0] for name in fields}
        calls = MADE_UP["fields"]["tool_calls"]
        kept = {name: part for name, part in calls.items() if name.partition("_")[0] not in edges}
        described = {**MADE_UP["fields"], "tool_calls": {**kept, **fields}}
        format_ = compile_description(name_description({**MADE_UP, "fields": described}))
        build_tag(format_, [("f", {})], forced=True)

    for name, build in EDGES.items():
        yield name, [measure(functools.partial(run, build(size))) for size in SIZES]


TABLES: dict[str, Callable[[], Iterator[tuple[str, list[float]]]]] = {
    "field": measure_fields,
    "field, plain worker": functools.partial(measure_fields, PLAIN),
    "field, with turns kept": measure_turns,
    "answer": measure_answers,
    "two turns": measure_conversations,
    "raw text": measure_raw,
    "answer that Dynamo reads again": measure_spelling,
    "constraint, on a worker": measure_foreign,
    "grammar of a forced call": measure_grammars,
    "description": measure_descriptions,
}


def main() -> int:
    """Print the tables."""
    freeze_loaded()  # as in a server; else collections count as growth
    failed = False
    for title, rows in {"parser and text": measure_formats, **TABLES}.items():
        write(
            f"| {title} | " + " | ".join(f"{size // 1000} KB, ms" for size in SIZES) + " | growth |"
        )
        write("|---" * (len(SIZES) + 2) + "|")
        for name, times in rows():
            growth = times[-1] / max(times[0], LEAST_S) / (SIZES[-1] / SIZES[0])
            failed |= growth > TOLERANCE
            shown = " | ".join(f"{seconds * 1000:.1f}" for seconds in times)
            write(f"| {name.replace('|', '/')} | {shown} | {growth:.2f} |")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
