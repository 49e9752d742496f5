"""Batches beside a running server: every example conversation with every option, one answer.

    python -m tests.offline.beside vllm hf vllm

A real worker of the first engine serves the requests; then each back end generates them as rows.
Ids and times may differ, nothing else. Prints the figures, and the first rows that differ. Exit
status 1: a row differs.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import httpx

from tests.e2e.offline_batch import ENVIRONMENT
from tests.offline.kills import build_command
from tests.support import TINY_MODEL, TRANSCRIPTS, write
from tools.offline import FIELDS
from tools.stack import HUGGINGFACE_FRONTEND, MODEL_NAME, Stack

PARSERS = ("--tool-call-parser", "hermes", "--reasoning-parser", "qwen3")
OPTIONS: list[dict[str, Any]] = [
    {},
    {"presence_penalty": 2.0},
    {"frequency_penalty": 2.0},
    {"presence_penalty": -2.0, "frequency_penalty": -2.0, "max_tokens": 24},
    {"min_p": 0.5, "temperature": 0.001},
    {"n": 2},
    {"n": 2, "temperature": 0.001},
    {"stop": ["e"], "include_stop_str_in_output": True},
    {"max_tokens": 7},
    {"min_tokens": 9},
    {"ignore_eos": True, "max_tokens": 40},
    {"logprobs": True, "top_logprobs": 2},
    # Dynamo drops the field at the top level.
    {"metadata": {"backedge": {"stop_token_ids": [11]}}},
]
# SGLang's penalties depend on the other rows of its batch.
AT_ONCE = {"vllm": 4, "sglang": 1}
ALONE = {"sglang": [("max_running_requests", AT_ONCE["sglang"])]}
SHOWN = 8


def build_rows() -> dict[str, dict[str, Any]]:
    """Return the body of each row by its id."""
    return {
        f"{name}/{number}": {
            **{field: transcript[field] for field in FIELDS if transcript.get(field) is not None},
            "temperature": 0,
            **options,
        }
        for name, transcript in TRANSCRIPTS.items()
        for number, options in enumerate(OPTIONS)
    }


def ask(url: str, body: dict[str, Any]) -> dict[str, Any]:
    fields = {"model": MODEL_NAME, **body}
    response = httpx.post(f"{url}/v1/chat/completions", json=fields, timeout=120)
    if not response.is_success:
        return {"status": response.status_code, "text": response.text}
    answer: dict[str, Any] = response.json()
    return answer


def serve(engine: str, rows: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Return the server's answers."""
    with Stack(folder) as stack:
        if engine == "vllm":
            stack.worker("--vllm-processing", *PARSERS)
        else:
            stack.sglang("--sglang-processing", *PARSERS)
        frontend = stack.frontend(command=HUGGINGFACE_FRONTEND)
        stack.wait_for_model(frontend)
        with concurrent.futures.ThreadPoolExecutor(AT_ONCE[engine]) as pool:
            answers = pool.map(lambda body: ask(frontend.url, body), rows.values())
            return dict(zip(rows, answers, strict=True))


def generate(backend: str, rows: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Return the answers of a batch."""
    source, output = folder / "in.jsonl", folder / f"{backend}.jsonl"
    lines = [{"custom_id": name, "body": body} for name, body in rows.items()]
    source.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    given = argparse.Namespace(
        backend=backend,
        engine_args=ALONE.get(backend, []),
        model=TINY_MODEL,
        dtype="float32",
    )
    with (folder / f"{backend}.log").open("wb") as log:
        subprocess.run(
            [*build_command(given, source, output), *PARSERS],
            env={**os.environ, **ENVIRONMENT},
            stdout=log,
            stderr=log,
            check=False,
        )
    found = [json.loads(line) for line in output.read_text().splitlines()]
    return {
        line["custom_id"]: {"status": line["response"]["status_code"], **line["response"]["body"]}
        for line in found
    }


def compare(answer: dict[str, Any]) -> Any:
    """Return what must be equal of an answer: no ids and no times; of a refusal, its status."""
    if "choices" not in answer:
        return answer.get("status")
    choices = []
    for choice in sorted(answer["choices"], key=lambda each: each["index"]):
        message, logprobs = choice["message"], choice.get("logprobs") or {}
        calls = [call["function"] for call in message.get("tool_calls") or []]
        tokens = [
            # Engines round differently beside other rows.
            (entry["token"], round(entry["logprob"], 1), len(entry["top_logprobs"]))
            for entry in logprobs.get("content") or []
        ]
        texts = [message.get("content") or None, message.get("reasoning_content")]
        choices.append([*texts, calls, choice["finish_reason"], tokens])
    usage = answer["usage"]
    return choices, [usage[name] for name in ("prompt_tokens", "completion_tokens", "total_tokens")]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("server", choices=["vllm", "sglang"])
    parser.add_argument("backends", nargs="+", choices=["hf", "vllm", "sglang"])
    parser.add_argument("--keep", type=Path, help="a folder for all answers")
    given = parser.parse_args()
    rows, differ = build_rows(), 0
    with tempfile.TemporaryDirectory() as made:
        folder = given.keep or Path(made)
        folder.mkdir(exist_ok=True)
        online = serve(given.server, rows, Path(made) / "stack")
        (folder / "online.json").write_text(json.dumps(online))
        for backend in given.backends:
            offline = generate(backend, rows, folder)
            different = [
                name for name in rows if compare(offline.get(name, {})) != compare(online[name])
            ]
            differ += len(different)
            result = {
                "server": given.server,
                "backend": backend,
                "rows": len(rows),
                "equal": len(rows) - len(different),
                "refused": sum("choices" not in answer for answer in online.values()),
            }
            write(json.dumps(result))
            for name in different[:SHOWN]:
                write(f"{name}\n  online  {compare(online[name])}")
                write(f"  offline {compare(offline.get(name, {}))}")
    sys.exit(differ > 0)


if __name__ == "__main__":
    main()
