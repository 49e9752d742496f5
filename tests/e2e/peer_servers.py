"""Engines' own servers with their parsers and with ours: how many answers are right.

    python -m tests.e2e.peer_servers [--json] [--servers vllm sglang]

Starts real servers one after another: with `hermes` and `qwen3_coder`, beside `qwen3`, the server's
and ours. Each answers the cases of tests/e2e/server_cases.py, which its model writes as scripted or
knows: whole, and streamed with one token and with five in a delta. Where vLLM drafts tokens itself
(`ngram`), a delta has as many as were accepted. The standard error says what is not right.
"""

from __future__ import annotations

import itertools
import operator
import os
import sys
import tempfile
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec
import openai
from backedge.base.server_names import PREFIX
from openai.types.chat import ChatCompletionChunk

from benchmarks.report import build_parser, show
from tests.e2e.client import HTTP, streamed, whole
from tests.e2e.server_cases import TABLES, Case, Message, read_message
from tests.support import TINY_MODEL
from tools.stack import (
    CPU_ENVIRONMENT,
    LOOPBACK,
    MODEL_NAME,
    ON_GPU,
    ROOT,
    SGLANG_ENGINE,
    VLLM_ENGINE,
    Process,
    Stack,
    free_port,
)

SERVE = ("-m", "vllm.entrypoints.cli.main", "serve", str(TINY_MODEL))
LAUNCH = ("-m", "sglang.launch_server", "--model-path", str(TINY_MODEL))
SCRIPTED = ("--logits-processors", "tests.e2e.scripted:Scripted")
VLLM = (*SERVE, *VLLM_ENGINE, "--enable-auto-tool-choice")
DRAFTS = '{"method": "ngram", "num_speculative_tokens": 4, "prompt_lookup_min": 1}'
DRAFTING = "vllm with ngram"
COMMANDS = {
    "vllm": (*VLLM, *SCRIPTED),
    DRAFTING: (*VLLM, "--speculative-config", DRAFTS),
    "sglang": (*LAUNCH, *SGLANG_ENGINE, "--enable-custom-logit-processor"),
}
PARSERS = ("hermes", "qwen3_coder")
# Fields of a request that SGLang's API does not have.
VLLMS_FIELDS = {"include_reasoning", "include_stop_str_in_output"}
# How an answer is asked for, by the tokens in a delta; 0 without a stream.
WAYS = (0, 1, 5)
SHORTEST_ID = 9
AT_ONCE = 16
# A message, and the rules that its stream broke.
Answered = tuple[Message, set[str]]


def start_server(stack: Stack, engine: str, *flags: str) -> Process:
    """Start an engine's own server with the example model, and wait until it answers."""
    port = free_port()
    own = ["--served-model-name", MODEL_NAME, "--host", LOOPBACK, "--port", str(port)]
    if engine == "sglang":
        own += ["--nccl-port", str(free_port())]
    path = os.pathsep.join(filter(None, (os.environ.get("PYTHONPATH"), str(ROOT))))
    environment = {"PYTHONPATH": path, **({} if ON_GPU else CPU_ENVIRONMENT)}
    started = stack.start((*COMMANDS[engine], *own, *flags), port, **environment)
    started.wait_for(started.answers)
    return started


def way_fields(engine: str, script: list[int], interval: int) -> dict[str, Any]:
    """Return the fields of a request in which the model writes `script`, or what it likes."""
    if engine in {"vllm", DRAFTING}:
        written = {"vllm_xargs": {"script": script}} if script else {}
        return {"stream_interval": interval, **written}
    from tests.e2e.scripted_sglang import Scripted

    return {
        "custom_logit_processor": Scripted.to_str(),
        "custom_params": {"script": script, "interval": interval},
    }


class Rules:
    """The rules that vLLM's own tests have for every stream."""

    def __init__(self) -> None:
        self.broken: set[str] = set()
        self._finishes = 0
        self._known = 0

    def watch(self, stream: Iterable[ChatCompletionChunk]) -> Iterator[ChatCompletionChunk]:
        """Yield the chunks."""
        for chunk in stream:
            for choice in chunk.choices:
                self._finishes += choice.finish_reason is not None
                if choice.delta.role not in {None, "assistant"}:
                    self.broken.add("a role of another")
                for call in choice.delta.tool_calls or ():
                    self._check_call(call)
            yield chunk
        if self._finishes != 1:
            self.broken.add(f"{self._finishes} finishes")

    def _check_call(self, call: Any) -> None:
        is_new = call.index == self._known
        self._known += is_new
        named = call.function is not None and bool(call.function.name)
        if (named, len(call.id or "") >= SHORTEST_ID) != (is_new, is_new):
            self.broken.add("a name or an id that does not come once, with the call's beginning")


def ask(url: str, engine: str, case: Case, way: int) -> Answered:
    """Return a server's message for a case, and the rules that its stream broke."""
    client = openai.OpenAI(base_url=url + "/v1", api_key="none", max_retries=0, http_client=HTTP)
    fields = way_fields(engine, case.script, way or 1)
    request: dict[str, Any] = {
        "model": MODEL_NAME,
        "messages": case.request["messages"],
        "temperature": 0,
        "extra_body": {**case.request, **fields},
    }
    rules = Rules()
    try:
        if way:
            chunks = client.chat.completions.create(**request, stream=True)
            response = streamed(rules.watch(chunks), lenient=True)
        else:
            response = whole(client.chat.completions.create(**request))
    except (openai.APIError, IndexError) as error:
        return {"error": str(error)}, rules.broken
    return read_message(response.answer), rules.broken


def ask_all(url: str, engine: str, cases: list[Case]) -> Iterator[tuple[Case, int, Answered]]:
    """Ask for every case in every way, some at once."""
    asked = list(itertools.product(cases, WAYS))
    with ThreadPoolExecutor(AT_ONCE) as threads:
        found = threads.map(lambda pair: ask(url, engine, *pair), asked)
        for (case, way), answered in zip(asked, found, strict=True):
            yield case, way, answered


def find_wrong(url: str, server: str, parser: str) -> set[tuple[str, int]]:
    """Return the cases of a server whose answers are wrong, with the way of asking."""
    return {
        (case.id, way)
        for cases in select_cases(server, parser).values()
        for case, way, (found, broken) in ask_all(url, server, cases)
        if broken or found != case.expected(stream=way > 0)
    }


class Row(msgspec.Struct):
    """The right answers of a server with its own parsers or ours.

    whole, by_1, by_5: without a stream, and with so many tokens in a delta. spaces: how many of
    the other answers differ in white space around the content alone.
    """

    server: str
    parsers: str
    table: str
    cases: int = 0
    whole: int = 0
    by_1: int = 0
    by_5: int = 0
    spaces: int = 0

    def __add__(self, other: Row) -> Row:
        """Return the sum of both parsers' rows."""
        names, counts = msgspec.structs.astuple(self)[:3], msgspec.structs.astuple(self)[3:]
        others = msgspec.structs.astuple(other)[3:]
        return Row(*names, *map(operator.add, counts, others))

    def add(self, case: Case, way: int, answered: Answered) -> bool:
        """Count an answer; return whether it is right."""
        found, broken = answered
        wanted = case.expected(stream=way > 0)
        is_right = found == wanted and not broken
        field = {0: "whole", 1: "by_1", 5: "by_5"}[way]
        setattr(self, field, getattr(self, field) + is_right)
        self.spaces += not is_right and not broken and trim(found) == trim(wanted)
        return is_right


def trim(message: Message) -> Message:
    """Return a message without white space around its content."""
    return {**message, "content": (message.get("content") or "").strip()}


def select_cases(server: str, parser: str) -> dict[str, list[Case]]:
    """Return the cases of a server by their table.

    Where tokens are drafted, vLLM refuses logits processors, so the model writes what it knows.
    """
    unknown = () if server.startswith("vllm") else VLLMS_FIELDS
    tables = {"examples": TABLES["examples"]} if server == DRAFTING else TABLES
    return {
        title: [
            case
            for case in cases
            if case.parser == parser and case.request.keys().isdisjoint(unknown)
        ]
        for title, cases in tables.items()
    }


def measure(server: str, parser: str, prefix: str) -> Iterator[Row]:
    """Start a server and yield its rows; say on the standard error what is wrong."""
    names = ("--tool-call-parser", prefix + parser, "--reasoning-parser", prefix + "qwen3")
    with tempfile.TemporaryDirectory() as folder, Stack(Path(folder)) as stack:
        process = start_server(stack, server, *names)
        for title, cases in select_cases(server, parser).items():
            row = Row(server, "ours" if prefix else "its own", title, len(cases))
            for case, way, answered in ask_all(process.url, server, cases):
                if not row.add(case, way, answered):
                    wanted = case.expected(stream=way > 0)
                    text = f"{row.parsers}, {case.id}, {way}: {answered}, not {wanted}"
                    sys.stderr.write(f"{server}, {text}\n")
            yield row
        process.kill()  # SGLang looks for a SIGTERM every five seconds


def main() -> None:
    """Print the rows."""
    parser = build_parser(__doc__)
    parser.add_argument("--servers", nargs="+", choices=COMMANDS, default=list(COMMANDS))
    arguments = parser.parse_args()
    rows: dict[tuple[str, str, str], Row] = {}
    for server, prefix in itertools.product(arguments.servers, ("", PREFIX)):
        for name in PARSERS[: 1 if server == DRAFTING else None]:
            for row in measure(server, name, prefix):
                key = (row.server, row.parsers, row.table)
                rows[key] = row + rows[key] if key in rows else row
    show({"right answers": list(rows.values())}, as_json=arguments.json)


if __name__ == "__main__":
    main()
