"""The soak's store of turns: a server that frontends share, and an agent whose turns it keeps."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import openai
import redis

from tests.support import TRANSCRIPTS
from tools.machine import find
from tools.stack import LOOPBACK, Process, Stack, free_port

REDIS = find("redis-server")
TENANT = "x-dynamo-meta-tenant"
CALL = TRANSCRIPTS["reasoning_call"]
MAX_TOKENS = 64


class Store:
    """Starts the server, and starts it anew on the same port."""

    def __init__(self, stack: Stack) -> None:
        if REDIS is None:
            sys.exit("The soak needs redis-server; tools/setup unpacks it.")
        self._stack, self._redis, self._port = stack, REDIS, free_port()
        # Requests without the header are left alone.
        url = f"redis://{LOOPBACK}:{self._port}/0"
        scope = ("--keep-turns-scope", TENANT)
        self.flags = ("--keep-turns", "exact", *scope, "--keep-turns-store", url)

    def start(self) -> Process:
        """Start the server."""
        flags = ("--port", str(self._port), "--bind", LOOPBACK, "--save", "")
        log = self._stack.folder / f"{len(self._stack.processes)}-store.log"
        with log.open("wb") as output:
            running = subprocess.Popen(
                [self._redis, *flags, "--dir", str(self._stack.folder)],
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        process = Process(running, log, self._port)
        self._stack.processes.append(process)
        return process

    def answers(self, _: Process) -> bool:
        """Whether the server answers."""
        try:
            return bool(redis.Redis(LOOPBACK, self._port, socket_timeout=1).ping())
        except redis.RedisError:
            return False


async def ask_for_call(client: openai.AsyncOpenAI, model: str, sent: list[Any], tenant: str) -> Any:
    """Return the answer to a turn of the agent. Raises the client's errors."""
    return await client.chat.completions.create(
        model=model,
        messages=[*CALL["messages"], *sent],
        tools=CALL["tools"],
        temperature=0,
        max_tokens=MAX_TOKENS,
        extra_headers={TENANT: tenant},
    )


def send_back(answer: Any) -> list[Any]:
    """Return the messages of the next turn, without reasoning as most agents send them."""
    message = answer.choices[0].message
    calls = [
        {
            "id": call.id,
            "type": "function",
            "function": {"name": call.function.name, "arguments": call.function.arguments},
        }
        for call in message.tool_calls
    ]
    result = {"role": "tool", "tool_call_id": calls[0]["id"], "content": "21 C"}
    return [{"role": "assistant", "content": message.content, "tool_calls": calls}, result]
