"""Claim: a stream's tokens cost the same however long it is; with vLLM's derender service not.

    python -m benchmarks.derender [--json] [--kinds content reasoning] [--tokens 20 100 300 600]

`vllm launch render` post-processes without a state of its own: each chunk of a stream is a request
with all tokens so far, and its parsers read these again. Beside it runs Backedge with a chunk for
each token (`--postprocess-latency lowest`). One stream at a time, one token per chunk; CPU
microseconds per token of the whole service, and of our frontend and worker together, without what
they need when idle. Both have to give the same text; otherwise the row says so.
"""

from __future__ import annotations

import argparse
import http.client
import json
import sys
import tempfile
import time
from pathlib import Path
from urllib.parse import urlsplit

import msgspec
from backedge.base.json_types import JsonObject

from tools.stack import LOOPBACK, MODEL_NAME, Stack, fetch, free_port

from .answers import KINDS, TINY_MODEL, Texts, answer
from .cpu import cpu_time
from .load import Load, run
from .systems import BACKEDGE_LOWEST, PARSERS, Engine, System, running

SERVICE = ("-m", "vllm.entrypoints.cli.main", "launch", "render", str(TINY_MODEL))
CONTEXT = "8192"
US_PER_S = 1e6
STREAMS = 8  # of ours, one behind the other; the service's costs so much that one is enough


class Row(msgspec.Struct):
    """One length. CPU microseconds per token; problem: what the service's text lacks."""

    kind: str
    tokens: int
    service_us: float
    ours_us: float
    problem: str = ""


class Service:
    """A running derender service."""

    def __init__(self, stack: Stack) -> None:
        port = free_port()
        flags = ("--host", LOOPBACK, "--port", str(port), "--served-model-name", MODEL_NAME)
        context = ("--max-model-len", CONTEXT, "--enable-auto-tool-choice")
        process = stack.start(
            (*SERVICE, *flags, *context, *PARSERS), port, VLLM_ALLOW_LONG_MAX_MODEL_LEN="1"
        )
        process.wait_for(lambda: bool(fetch(process.url + "/v1/models")))
        self.pid = process.popen.pid
        self._connection = http.client.HTTPConnection(urlsplit(process.url).netloc)

    def post(self, path: str, body: JsonObject) -> JsonObject:
        """Return the answer. Raises ValueError if it is an error."""
        headers = {"content-type": "application/json"}
        self._connection.request("POST", path, json.dumps(body), headers)
        response = self._connection.getresponse()
        answered: JsonObject = json.loads(response.read())
        if response.status != http.client.OK:
            raise ValueError(f"HTTP {response.status}: {str(answered)[:300]}")
        return answered

    def stream(self, request: JsonObject, token_ids: list[int]) -> Texts:
        """Send one chunk for each token, and return the texts that come back."""
        chat = {"model": MODEL_NAME, **request}
        rendered = self.post("/v1/chat/completions/render", chat)
        body = {
            "stream": True,
            "model": MODEL_NAME,
            "chat_request": chat,
            "prompt_token_ids": rendered["token_ids"],
        }
        state, deltas = None, []
        for token_id in token_ids:
            chunk = {"request_id": "r", "choices": [{"index": 0, "token_ids": [token_id]}]}
            answered = self.post(
                "/v1/chat/completions/derender",
                {**body, "generate_chunk": chunk, "stream_state": state},
            )
            state = answered["stream_state"]
            deltas += [choice["delta"] for choice in answered["chunk"]["choices"]]
        return Texts(
            content="".join(delta.get("content") or "" for delta in deltas),
            reasoning="".join(delta.get("reasoning") or "" for delta in deltas),
        )


def measure_service(service: Service, kind: str, tokens: int, longest: int) -> Row:
    """Return the row of one length, without our figure."""
    whole = answer(kind, longest)
    token_ids = whole.token_ids[:tokens]
    before = cpu_time(service.pid)
    texts = service.stream(whole.request, token_ids)
    used_s = cpu_time(service.pid).since(before).total_s
    wanted, given = getattr(whole.texts, kind), getattr(texts, kind)
    fits = bool(given) and wanted.strip().startswith(given.strip())
    problem = "" if fits else f"it answered {given[:40]!r}, not {wanted[:40]!r}"
    return Row(kind, len(token_ids), used_s / len(token_ids) * US_PER_S, 0.0, problem)


def measure_ours(system: System, row: Row, longest: int) -> None:
    """Add our figure."""
    load = Load(system.url, MODEL_NAME, row.kind, True, longest, 1, STREAMS, row.tokens)
    run(load)  # the first requests of a length take longer
    idle_before, start = system.cpu_times(), time.monotonic()
    time.sleep(1)
    idle = [
        late.since(early).per_second(time.monotonic() - start)
        for early, late in zip(idle_before, system.cpu_times(), strict=True)
    ]
    before, start = system.cpu_times(), time.monotonic()
    outcome = run(load)
    elapsed_s = time.monotonic() - start
    used_s = sum(
        late.since(early).less_idle(rest, elapsed_s).total_s
        for early, late, rest in zip(before, system.cpu_times(), idle, strict=True)
    )
    row.ours_us = used_s / outcome.tokens * US_PER_S
    row.problem = row.problem or "; ".join(outcome.problems)


def table(rows: list[Row]) -> str:
    """Return the rows as text."""
    lines = [f"{'kind':12}{'tokens':>7}{'derender us':>13}{'backedge us':>13}{'ratio':>8}"]
    lines += [
        f"{row.kind:12}{row.tokens:7}{row.service_us:13.0f}{row.ours_us:13.0f}"
        f"{row.service_us / row.ours_us:8.0f}  {row.problem}"
        for row in rows
    ]
    return "\n".join(lines)


def main() -> None:
    """Run the benchmark and print its table."""
    parser = argparse.ArgumentParser(
        description=(__doc__ or "").splitlines()[0], allow_abbrev=False
    )
    parser.add_argument("--json", action="store_true", help="print a JSON array")
    parser.add_argument(
        "--kinds", nargs="+", choices=[kind for kind in KINDS if kind != "tools"],
        default=["content", "reasoning"],
    )  # fmt: skip
    parser.add_argument("--tokens", type=int, nargs="+", default=[20, 100, 300, 600])
    arguments = parser.parse_args()
    longest = max(arguments.tokens)
    engine = Engine("replay", longest, 0.0)
    with (
        tempfile.TemporaryDirectory() as folder,
        running(engine, Path(folder), [BACKEDGE_LOWEST]) as (system,),
        Stack(Path(folder) / "service") as stack,
    ):
        service = Service(stack)
        rows = []
        for kind in arguments.kinds:
            for tokens in arguments.tokens:
                print(f"{kind}, {tokens} tokens", file=sys.stderr)
                row = measure_service(service, kind, tokens, longest)
                measure_ours(system, row, longest)
                rows.append(row)
    print(msgspec.json.encode(rows).decode() if arguments.json else table(rows))


if __name__ == "__main__":
    main()
