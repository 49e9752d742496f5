"""An agent's loop through Dynamo's KV router, on two real vLLM workers on the CPU.

Each worker's engine writes five calls and a text, by a logits processor. The client drops the
reasoning and writes the arguments anew. The modes take turns, each loop with a question of its own.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import re
import statistics
import tempfile
import time
from functools import partial
from pathlib import Path

import msgspec
from backedge.base.json_types import JsonObject

from tests.clients.scripted.script import CALLS
from tools.stack import (
    HUGGINGFACE_FRONTEND,
    MODEL_NAME,
    ROOT,
    Process,
    Stack,
    free_port,
    metric,
    worker_is_ready,
)

from . import load

MODES = ("off", "reasoning", "exact")
# Tokens of a block in the engine's cache.
BLOCK = 32
PARSERS = ("--tool-call-parser", "hermes", "--reasoning-parser", "qwen3")
LOGITS = ("--logits-processors", "tests.clients.scripted.vllm_logits:Scripted")
OVERLAP = re.compile(r"with (\d+)/\d+ blocks overlap")
# Workers tell the router of their caches a moment after an answer.
SETTLE_S = 0.3
CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
FUNCTION = {"name": "get_weather", "description": "Return the weather.", "parameters": CITY}


class StackRow(msgspec.Struct):
    """The prompts of one mode that follow another one, in whole blocks.

    cached: found in the engine's cache, over the last prompts and answers: all together, and the
    lowest of a prompt. seen: the same of the overlap that the router saw. stayed: prompts that
    went to the worker that had answered.
    """

    mode: str
    prompts: int
    cached: float
    lowest: float
    seen: float
    stayed: int


class Step(msgspec.Struct):
    """One request: tokens of its prompt and answer; blocks that the router saw; its worker."""

    tokens: int
    cached: int
    overlap: int
    worker: int


class Routed:
    """The workers, and a frontend for each mode."""

    def __init__(self, stack: Stack) -> None:
        self._workers = [self._start_worker(stack) for _ in range(2)]
        self._frontends = {
            mode: stack.frontend(
                *("--router-mode", "kv", "--keep-turns", mode),
                command=HUGGINGFACE_FRONTEND,
                wait=False,
                DYN_LOG="info,dynamo_llm::kv_router=debug",
            )
            for mode in MODES
        }
        for worker in self._workers:
            worker.wait_for(partial(worker_is_ready, worker.url))
        for frontend in self._frontends.values():
            stack.wait_for_model(frontend)

    def _start_worker(self, stack: Stack) -> Process:
        # vLLM's publisher binds only to a wildcard.
        events = {
            "enable_kv_cache_events": True,
            "publisher": "zmq",
            "endpoint": f"tcp://*:{free_port()}",
        }
        return stack.worker(
            *("--vllm-processing", *PARSERS, *LOGITS, "--enable-prefix-caching"),
            *("--kv-events-config", json.dumps(events)),
            wait=False,
        )

    def run(self, mode: str, number: int) -> list[Step]:
        """Return the requests of one loop."""
        frontend = self._frontends[mode]
        messages: list[JsonObject] = [
            {"role": "system", "content": f"{mode}, loop {number}. " * 8},
            {"role": "user", "content": "Where is it warmest?"},
        ]
        steps = []
        for _ in range(CALLS + 1):
            before = self._count_prompt_tokens()
            answer = post(frontend, messages)
            time.sleep(SETTLE_S)
            grown = [
                after > old for after, old in zip(self._count_prompt_tokens(), before, strict=True)
            ]
            usage = answer["usage"]
            overlaps = OVERLAP.findall(frontend.log.read_text())
            steps.append(
                Step(
                    usage["prompt_tokens"] + usage["completion_tokens"],
                    (usage.get("prompt_tokens_details") or {}).get("cached_tokens") or 0,
                    int(overlaps[-1]) if overlaps else 0,
                    grown.index(True),
                )
            )
            messages += send_back(answer["choices"][0]["message"])
        return steps

    def _count_prompt_tokens(self) -> list[float]:
        return [metric(worker.url, "vllm:prompt_tokens_total") for worker in self._workers]


def post(frontend: Process, messages: list[JsonObject]) -> JsonObject:
    """Return the response to a request."""
    body = {
        "model": MODEL_NAME,
        "messages": messages,
        "tools": [{"type": "function", "function": FUNCTION}],
        "temperature": 0,
    }

    async def ask() -> list[JsonObject]:
        return [event async for event in load.post(frontend.url, msgspec.json.encode(body))]

    [answer] = asyncio.run(ask())
    return answer


def send_back(message: JsonObject) -> list[JsonObject]:
    """Return the messages that a client adds for an answer, without its reasoning."""
    calls, results = [], []
    for call in message.get("tool_calls") or ():
        arguments = json.loads(call["function"]["arguments"])
        function = {"name": call["function"]["name"], "arguments": json.dumps(arguments, indent=2)}
        calls.append({"id": call["id"], "type": "function", "function": function})
        weather = f"21 C and sunny in {arguments['city']}"
        results.append({"role": "tool", "tool_call_id": call["id"], "content": weather})
    return [{"role": "assistant", "content": message["content"], "tool_calls": calls}, *results]


def summarize(mode: str, loops: list[list[Step]]) -> StackRow:
    """Return the row of a mode."""
    pairs = [pair for loop in loops for pair in itertools.pairwise(loop)]
    # The last generated token is in no cache: the engine never computed what follows it.
    whole = [(last.tokens - 1) // BLOCK for last, _ in pairs]
    cached = [following.cached // BLOCK for _, following in pairs]
    seen = [min(following.overlap, of) for (_, following), of in zip(pairs, whole, strict=True)]
    shares = [min(one, of) / of for one, of in zip(cached, whole, strict=True)]
    return StackRow(
        mode,
        len(pairs),
        statistics.fmean(shares),
        min(shares),
        sum(seen) / sum(whole),
        sum(last.worker == following.worker for last, following in pairs),
    )


def measure_stack(rounds: int) -> list[StackRow]:
    """Return a row for each mode."""
    with (
        tempfile.TemporaryDirectory() as folder,
        Stack(Path(folder), PYTHONPATH=str(ROOT)) as stack,
    ):
        routed = Routed(stack)
        loops: dict[str, list[list[Step]]] = {mode: [] for mode in MODES}
        for number in range(rounds):
            for mode in MODES:
                loops[mode].append(routed.run(mode, number))
    return [summarize(mode, found) for mode, found in loops.items()]
