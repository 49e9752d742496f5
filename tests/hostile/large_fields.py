"""What one large field costs a frontend: python -m tests.hostile.large_fields [--kilobytes 10 40]

For each field and size it prints the longest gap in a stream beside the request, the frontend's CPU
time, and the status. Exit status 1 if the CPU time of a field grows by more than its size: between
two sizes of which the larger is refused, and below `NOISE_MS`, it counts as constant.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import os
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import httpx

from tests.e2e.conftest import BACKENDS, ON_PATH
from tests.e2e.test_replay import PARSERS
from tests.engines.frontends.bad_requests import USER, json_schema, tool
from tests.hostile.__main__ import TIMEOUT_S, post
from tests.hostile.steady_stream import SteadyStream
from tests.support import TRANSCRIPTS, write
from tools.stack import MODEL_NAME, Process, Stack

SIZES_KB = (10, 40, 160, 1000, 2000)
# Growth beyond the size, and CPU time that other work of the process may take.
TOLERANCE, NOISE_MS = 1.6, 60.0
# Of schemas; the limit of schemas counts two for each, and what is around them.
LEVELS = 40
GOOD = TRANSCRIPTS["plain_text"]["messages"]
Fields = dict[str, Any]


def words(size: int) -> str:
    """Return text of so many bytes."""
    return ("word " * (size // 5 + 1))[:size]


def entries(size: int) -> dict[str, int]:
    """Return an object of so many bytes as JSON, of short entries."""
    return {f"k{number:06}": 1 for number in range(size // 13)}


def earlier(**fields: Any) -> Fields:
    """Return a conversation with an earlier answer."""
    return {"messages": [USER, {"role": "assistant", "content": "", **fields}, USER]}


def call(arguments: str) -> Fields:
    """Return a conversation with an earlier call."""
    function = {"name": "f", "arguments": arguments}
    return earlier(tool_calls=[{"id": "1", "type": "function", "function": function}])


def good(**fields: Any) -> Fields:
    """Return a request with an answer."""
    return {"messages": GOOD, **fields}


def properties(size: int) -> Fields:
    """Return a schema of so many bytes as JSON."""
    named = {f"p{number:06}": {"type": "string"} for number in range(size // 30)}
    return {"type": "object", "properties": named}


def defined(size: int) -> Fields:
    """Return a schema of so many bytes as JSON, half of them definitions."""
    numbers = range(size // 100)
    return {
        "type": "object",
        "$defs": {f"d{n:06}": {"type": ["string", "null"], "maxLength": 9} for n in numbers},
        "properties": {f"p{n:06}": {"$ref": f"#/$defs/d{n:06}"} for n in numbers},
    }


def choices(size: int) -> list[str]:
    """Return a list of so many bytes as JSON, of short texts."""
    return [f"{number:08}" for number in range(size // 12)]


def nested(size: int) -> Fields:
    """Return a schema of so many bytes as JSON, as deep as is allowed, again and again."""
    deep: Fields = {"type": "string"}
    for _ in range(LEVELS):
        deep = {"type": "array", "items": deep}
    return {"anyOf": [deep] * (size // len(json.dumps(deep)))}


def structural_tags(size: int) -> Fields:
    """Return a response format of so many bytes as JSON, of tags."""
    tag = {"type": "tag", "begin": "<a>", "end": "</a>", "content": {"type": "any_text"}}
    tags = [tag] * (size // len(json.dumps(tag)))
    triggered = {"type": "triggered_tags", "triggers": ["<a>"], "tags": tags}
    return {"type": "structural_tag", "format": triggered}


def structures(size: int) -> Fields:
    """Return the older form of `structural_tags`."""
    tag = {"begin": "<a>", "schema": {"type": "object"}, "end": "</a>"}
    tags = [tag] * (size // len(json.dumps(tag)))
    return {"type": "structural_tag", "structures": tags, "triggers": ["<a>"]}


def older(size: int) -> Fields:
    """Return a schema of so many bytes as JSON in words of older drafts and other languages."""
    word = {"type": "varchar", "required": True, "exclusiveMinimum": True, "minimum": 1}
    properties = {f"p{n:06}": {"type": "list", "items": [word]} for n in range(size // 120)}
    return {"type": "dict", "properties": properties}


FIELDS: dict[str, Callable[[int], Fields]] = {
    "content": lambda size: {"messages": [{"role": "user", "content": words(size)}]},
    "content, one word": lambda size: {"messages": [{"role": "user", "content": "x" * size}]},
    "messages": lambda size: {"messages": [USER] * (size // 35)},
    "messages, the last of a wrong type": lambda size: {
        "messages": [*([USER] * (size // 35)), {"role": "user", "content": 5, "name": []}]
    },
    "content parts": lambda size: {
        "messages": [{"role": "user", "content": [{"type": "text", "text": "a"}] * (size // 30)}]
    },
    "a message's name": lambda size: {"messages": [{**USER, "name": words(size)}]},
    "earlier reasoning": lambda size: earlier(reasoning_content=words(size)),
    "earlier reasoning, segments": lambda size: earlier(reasoning_content=["a "] * (size // 6)),
    "earlier arguments": lambda size: call(json.dumps(entries(size))),
    "earlier arguments, text": lambda size: call(json.dumps({"text": words(size)})),
    "earlier arguments, nested": lambda size: call("[" * size),
    "metadata as text": lambda size: good(metadata={"backedge": words(size)}),
    "metadata as JSON": lambda size: good(metadata={"backedge": json.dumps(entries(size))}),
    "metadata of others": lambda size: good(metadata=entries(size)),
    "template variables": lambda size: good(chat_template_kwargs=entries(size)),
    "a template variable": lambda size: good(chat_template_kwargs={"x": words(size)}),
    "an unread field": lambda size: good(unread=entries(size)),
    "an unread list": lambda size: good(unread=[[]] * (size // 4)),
    "user": lambda size: good(user=words(size)),
    "stop": lambda size: good(stop=choices(size)),
    "logit_bias": lambda size: good(logit_bias={str(n): 1 for n in range(size // 9)}),
    "tools": lambda size: good(tools=[tool({}, f"f{n}") for n in range(size // 80)]),
    "a tool's description": lambda size: good(
        tools=[{"type": "function", "function": {"name": "f", "description": words(size)}}]
    ),
    "a tool's schema": lambda size: good(tools=[tool(properties(size))]),
    "a forced tool's schema": lambda size: good(
        tools=[tool(properties(size))], tool_choice="required"
    ),
    "a named tool's schema": lambda size: good(
        tools=[tool(properties(size))],
        tool_choice={"type": "function", "function": {"name": "f"}},
    ),
    "a pattern": lambda size: good(
        response_format=json_schema({"type": "string", "pattern": "[\u0100-\uffff]" * (size // 14)})
    ),
    "patterns of tools": lambda size: good(
        tools=[tool({"pattern": "[\u0100-\uffff]" * 1000}, f"f{n}") for n in range(size // 15_000)]
    ),
    "a tool's schema, definitions": lambda size: good(tools=[tool(defined(size))]),
    "a tool's schema, older words": lambda size: good(tools=[tool(older(size))]),
    "a tool's schema, a fault at its end": lambda size: good(
        tools=[
            tool({**older(size), "not": {"items": [{"dependencies": {"a": ["b"]}}, {"type": 5}]}})
        ]
    ),
    "response_format": lambda size: good(response_format=json_schema(properties(size))),
    "response_format, definitions": lambda size: good(response_format=json_schema(defined(size))),
    "response_format, choices": lambda size: good(
        response_format=json_schema({"enum": choices(size)})
    ),
    "response_format, lengths": lambda size: good(
        response_format=json_schema({"anyOf": [{"maxLength": n} for n in range(size // 18)]})
    ),
    "response_format, deep": lambda size: good(response_format=json_schema(nested(size))),
    "structural tags": lambda size: good(response_format=structural_tags(size)),
    "structures": lambda size: good(response_format=structures(size)),
    "guided_json": lambda size: good(guided_json=defined(size)),
    "guided_json as text": lambda size: good(guided_json=json.dumps(defined(size))),
    "guided_choice": lambda size: good(guided_choice=choices(size)),
    "guided_regex": lambda size: good(guided_regex="(a|b)" * (size // 5)),
    "guided_regex, copies": lambda size: good(guided_regex="(a{1,9})?" * (size // 9)),
    "guided_grammar, rules": lambda size: good(
        guided_grammar='a ::= "b"? [c]{1,9} a\n' * (size // 22)
    ),
    "guided_grammar": lambda size: good(guided_grammar='root ::= "a"\n' * (size // 13)),
    "two constraints": lambda size: good(
        response_format=json_schema(defined(size // 3)),
        guided_json={**properties(size // 3), "enum": choices(size // 3)},
    ),
}


def cpu_ms(process: Process) -> float:
    """Return the CPU time of a process."""
    fields = Path(f"/proc/{process.popen.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) * 1000 / os.sysconf("SC_CLK_TCK")


async def send(url: str, body: bytes) -> tuple[int, float]:
    """Send a request beside a stream; return its status and the stream's longest gap."""
    async with httpx.AsyncClient(base_url=url, timeout=TIMEOUT_S) as client:
        with SteadyStream(url) as stream:
            await asyncio.sleep(0.3)
            status, _ = await post(client, body)
            await asyncio.sleep(0.3)
    return status, stream.longest_gap_s * 1000


def measure(frontend: Process, fields: Fields) -> tuple[float, float, int]:
    """Return the CPU time beside a stream, the stream's longest gap, and the status."""
    body = json.dumps({"model": MODEL_NAME, "max_tokens": 1, **fields}).encode()
    before = cpu_ms(frontend)
    status, gap = asyncio.run(send(frontend.url, body))
    return cpu_ms(frontend) - before, gap, status


def grows(costs: Sequence[tuple[int, float, int]]) -> bool:
    """Whether the time grows by more than the size. costs: size, CPU time, status."""
    return any(
        ms > NOISE_MS and ms - NOISE_MS > TOLERANCE * max(smaller_ms, NOISE_MS / 4) * size / smaller
        for (smaller, smaller_ms, accepted), (size, ms, status) in itertools.pairwise(costs)
        if accepted == status
    )


def main() -> int:
    """Print a row for each field."""
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("--kilobytes", type=int, nargs="+", default=SIZES_KB)
    parser.add_argument("--edge", choices=tuple(BACKENDS), default="huggingface")
    parser.add_argument("--fields", nargs="*", choices=tuple(FIELDS), default=tuple(FIELDS))
    flags = parser.parse_args()
    sizes = " | ".join(f"{size} KB: CPU ms, gap ms, status" for size in flags.kilobytes)
    write(f"| field | {sizes} | grows |\n" + "|---" * (len(flags.kilobytes) + 2) + "|")
    failed = False
    with tempfile.TemporaryDirectory() as folder, Stack(Path(folder)) as stack:
        stack.replay(*PARSERS, "--tokens-per-second", "50", "--postprocess-latency", "lowest")
        frontend = stack.frontend(*PARSERS, *BACKENDS[flags.edge], **ON_PATH)
        stack.wait_for_model(frontend)
        quiet = min(measure(frontend, good())[0] for _ in range(3))
        for name in flags.fields:
            asked = [FIELDS[name](size * 1000) for size in flags.kilobytes]
            found = [
                (max(0.0, ms - quiet), gap, status)
                for ms, gap, status in (measure(frontend, each) for each in asked)
            ]
            costs = [
                (size, cost[0], cost[2]) for size, cost in zip(flags.kilobytes, found, strict=True)
            ]
            worse = grows(costs)
            failed |= worse
            cells = " | ".join(f"{ms:.0f}, {gap:.0f}, {status}" for ms, gap, status in found)
            write(f"| {name} | {cells} | {'yes' if worse else 'no'} |")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
