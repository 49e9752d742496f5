"""Smoke test of an installed wheel, without Dynamo and engines; see release_check.py.

It post-processes the example transcripts in an empty environment, independently of the checkout.
"""

from __future__ import annotations

import contextlib
import io
import json
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

import backedge.parsers
import msgspec
from backedge.cli.main import COMMANDS
from backedge.cli.main import main as command
from backedge.parsers.base import ParserNames, ParserRequest
from backedge.parsers.parser_lookup import linear_parsers
from backedge.postprocess import Chunk, Postprocessor, PostprocessParams, detokenizers
from backedge.recording.parser_case import read_expected
from backedge.templates.chat_template import ModelPrompts
from backedge.testing.transcripts import EXAMPLES
from backedge.tokenization.detokenizer import read_vocabulary

# Features that need a worker: ending the output, constraining it to a grammar.
OF_WORKERS = {"stop", "max_tokens", "tool_choice", "response_format"}


def read_transcripts() -> list[dict[str, Any]]:
    """Return the transcripts in the wheel that need no worker."""
    lines = [
        line
        for path in sorted((EXAMPLES / "transcripts").glob("*.jsonl"))
        for line in path.read_text(encoding="utf-8").splitlines()
    ]
    return [found for line in lines if not OF_WORKERS.intersection(found := json.loads(line))]


def postprocess(files: ModelPrompts, transcript: dict[str, Any]) -> dict[str, Any]:
    """Return the answer of a transcript, fed token by token, in the form of its `expect`."""
    tools = transcript.get("tools", [])
    parsed = ParserRequest(
        tools=tools,
        tool_choice="auto" if tools else "none",
        chat_template_kwargs=transcript.get("chat_template_kwargs", {}),
    )
    params = PostprocessParams(
        response_id="chatcmpl-1", created=1, model="tiny", prompt_length=0, parser=parsed
    )
    tokenizer = files.tokenizer
    parsers = linear_parsers(ParserNames("hermes", "qwen3"), read_vocabulary(tokenizer))
    post = Postprocessor(params, detokenizers(tokenizer), parsers)
    *tokens, last = files.encode(transcript["output"])
    chunks = [*(Chunk(token_ids=[token]) for token in tokens)]
    chunks.append(Chunk(token_ids=[last], finish_reason="stop"))
    found = read_expected([delta for chunk in chunks for delta in post.feed(chunk)])
    return dict(msgspec.to_builtins(found))


def call_for_help() -> None:
    """Run --help of each subcommand. Raises ImportError if one lacks a package."""
    for name in COMMANDS:
        try:
            with contextlib.redirect_stdout(io.StringIO()):
                command([name, "--help"], standalone_mode=False)
        except SystemExit as end:
            # `offline` uses argparse, which exits after printing help.
            if end.code:
                raise


def main() -> None:
    """Print how many transcripts are correct; exit with the first that is not."""
    folder = Path(backedge.parsers.__file__).parents[2]
    if folder.name != "site-packages":
        sys.exit(f"backedge comes from {folder}, not from an installed wheel")
    files = ModelPrompts(EXAMPLES / "tiny_model")
    transcripts = read_transcripts()
    for transcript in transcripts:
        if (found := postprocess(files, transcript)) != transcript["expect"]:
            sys.exit(f"{transcript['id']} is {found}, not {transcript['expect']}")
    call_for_help()
    sys.stdout.write(
        f"{metadata.version('backedge')}: {len(transcripts)} transcripts are correct, "
        f"{len(COMMANDS)} subcommands start\n"
    )


if __name__ == "__main__":
    main()
