"""Fleets without processes: cards as Dynamo writes them, and a server that answers like its."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from backedge.postprocess.messages import KEY, WorkerCard, encode
from typing_extensions import override

HERMES = WorkerCard(
    engine="vllm", engine_version="0.31.0", tool_call_parser="hermes", backedge_version="0.1.0"
)


def card(
    model: str = "m",
    own: WorkerCard | None = HERMES,
    instance: int = 1,
    worker_type: str = "aggregated",
    **more: Any,
) -> dict[str, Any]:
    """Return what a worker registers. more: of the runtime configuration."""
    data = {} if own is None else {KEY: encode(own)}
    return {
        "type": "Model",
        "namespace": "dynamo",
        "component": "backend",
        "endpoint": "generate",
        "instance_id": instance,
        "card_json": {
            "display_name": model,
            "context_length": more.pop("context_length", 2048),
            "model_input": "Tokens",
            "worker_type": worker_type,
            "runtime_config": {"runtime_data": data, **more},
        },
    }


def write_cards(folder, *cards: dict[str, Any]) -> str:
    """Write cards as the file backend does, and return its folder."""
    (folder / "v1" / "mdc").mkdir(parents=True)
    for number, one in enumerate(cards):
        (folder / "v1" / "mdc" / f"dynamo%2Fbackend%2F{number}").write_text(json.dumps(one))
    return str(folder)


@contextmanager
def serve(answers: dict[str, tuple[int, str]]) -> Iterator[str]:
    """Serve answers by path, each a status and a body; yield the URL."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, body = answers.get(self.path, (404, ""))
            self.send_response(status)
            self.end_headers()
            self.wfile.write(body.encode())

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.do_GET()

        @override
        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()


def frontend_answers(*models: str, ours: bool = True, status: str = "healthy") -> dict[str, Any]:
    """Return what a frontend answers that serves these models."""
    health = {"status": status, "instances": [{}] * len(models)}
    return {
        "/v1/models": (200, json.dumps({"data": [{"id": model} for model in models]})),
        "/health": (200 if status == "healthy" else 503, json.dumps(health)),
        "/metrics": (200, "backedge_prompt_cache_bytes 0\n" if ours else "dynamo_x 0\n"),
    }
