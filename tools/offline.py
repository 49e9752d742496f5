"""`make offline`: runs `python -m backedge.offline` on the example conversations."""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from backedge.base.terminal import format_table

from tools.stack import CPU_ENVIRONMENT, ROOT, TINY_MODEL

TRANSCRIPTS = ROOT / "examples" / "transcripts"
PARSERS = ("--tool-call-parser", "hermes", "--reasoning-parser", "qwen3")
# The fields of a transcript that form its request.
FIELDS = (
    *("messages", "tools", "tool_choice", "response_format"),
    *("chat_template_kwargs", "stop", "max_tokens"),
)
# Arguments for vLLM's CPU build; tools/stack.py explains them.
CPU_ARGUMENTS = {
    "enforce_eager": "true",
    "block_size": "32",
    "num_gpu_blocks_override": "4096",
}
NARROWEST = 100
# The width of the columns before the answer, about.
BEFORE_ANSWER = 44


def main() -> int:
    """Run the command on the examples, print the table, and return the command's exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--engine", choices=("replay", "vllm", "hf", "sglang"), default="replay")
    parser.add_argument("--model", default="", help="path or name; default: the example model")
    parser.add_argument("arguments", nargs="*", help="more flags for the command")
    options = parser.parse_args()
    if options.engine == "replay" and options.model:
        sys.exit(
            "offline: the replay back end answers from the example model's transcripts only; "
            "to generate with a model, add ENGINE=hf or ENGINE=vllm"
        )
    with tempfile.TemporaryDirectory(prefix="backedge-") as folder:
        source, output = Path(folder) / "in.jsonl", Path(folder) / "out.jsonl"
        source.write_text("".join(f"{json.dumps(row)}\n" for row in read_rows()))
        command = build_command(options, source, output)
        print(f"offline: {shlex.join(command)}\n", flush=True)
        code = subprocess.run(command, cwd=ROOT, env=environment(options), check=False).returncode
        if output.exists():
            width = shutil.get_terminal_size().columns
            print("", *show_table(read_answers(output), width), sep="\n")
    return code


def read_rows() -> list[dict[str, Any]]:
    """Return the transcripts' requests as rows in OpenAI's batch format."""
    transcripts = [
        json.loads(line)
        for path in sorted(TRANSCRIPTS.glob("*.jsonl"))
        for line in path.read_text(encoding="utf-8").splitlines()
    ]
    return [
        {
            "custom_id": transcript["id"],
            "method": "POST",
            "url": "/v1/chat/completions",
            "body": {name: transcript[name] for name in FIELDS if name in transcript},
        }
        for transcript in transcripts
    ]


def read_answers(output: Path) -> list[dict[str, Any]]:
    """Return the lines of the output."""
    return [json.loads(line) for line in output.read_text(encoding="utf-8").splitlines()]


def build_command(options: argparse.Namespace, source: Path, output: Path) -> list[str]:
    """Return the command line that generates `source` into `output`."""
    python = os.path.relpath(sys.executable, ROOT)
    model = options.model or str(TINY_MODEL.relative_to(ROOT))
    command = [python, "-m", "backedge.offline", "--model", model, "--backend", options.engine]
    if not options.model:
        command += [*PARSERS, "--temperature", "0"]
    if options.engine == "hf":
        command += ["--engine-args", "batch_size=32"]
    if options.engine == "vllm" and on_cpu():
        command += ["--dtype", "float32", "--max-model-len", "2048"]
        for name, value in CPU_ARGUMENTS.items():
            command += ["--engine-args", f"{name}={value}"]
    return [*command, "--input", str(source), "--output", str(output), *options.arguments]


def environment(options: argparse.Namespace) -> dict[str, str]:
    """Return the environment of the command."""
    more = CPU_ENVIRONMENT if options.engine == "vllm" and on_cpu() else {}
    return {**os.environ, **more}


def on_cpu() -> bool:
    """Whether the installed vLLM is its CPU build."""
    return "cpu" in importlib.metadata.version("vllm")


def show_table(answers: list[dict[str, Any]], width: int) -> list[str]:
    """Return a line for each answer. width: of the terminal, in characters."""
    last = max(width, NARROWEST) - BEFORE_ANSWER
    rows = [describe(answer) for answer in answers]
    rows = [[*cells[:-1], shorten(cells[-1], last)] for cells in rows]
    return format_table([["row", "tokens", "finish", "answer"], *rows])


def describe(answer: dict[str, Any]) -> list[str]:
    """Return the cells of an answer: id, generated tokens, finish_reason, text."""
    if answer["error"]:
        return [answer["custom_id"], "", answer["error"]["code"], answer["error"]["message"]]
    body = answer["response"]["body"]
    [choice] = body["choices"]
    message = choice["message"]
    calls = [call["function"] for call in message.get("tool_calls", [])]
    parts = [
        f"({message['reasoning_content'].strip()})" if "reasoning_content" in message else "",
        (message["content"] or "").strip(),
        *(f"{call['name']} {call['arguments']}" for call in calls),
    ]
    tokens = str(body["usage"]["completion_tokens"])
    shown = " ".join(part for part in parts if part)
    return [answer["custom_id"], tokens, choice["finish_reason"], shown]


def shorten(text: str, width: int) -> str:
    """Return the text as one line of at most `width` characters."""
    line = " ".join(text.split())
    return line if len(line) <= width else f"{line[: width - 1]}\u2026"


if __name__ == "__main__":
    sys.exit(main())
