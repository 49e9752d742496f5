"""The commands in the manifests: each flag is one of the program that reads it."""

from __future__ import annotations

import argparse
import importlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from backedge.frontend.flags import parse_flags
from backedge.parsers.parser_lookup import reasoning_format, tool_format
from backedge.worker import flags
from backedge.worker.llm_engine import read_flags
from backedge.worker.sidecar import parse_arguments

from tests.deploy.manifests import (
    OVERLAYS,
    RUNTIMES,
    each_container,
    each_overlay,
    find_engine,
)
from tests.machine import needs

ENGINES = {"dynamo.vllm": "vllm", "dynamo.sglang": "sglang", "dynamo.trtllm": "trtllm"}
SIDECAR = "backedge.worker.sidecar"
# The engines' own flags, as Dynamo's templates have them, beside Dynamo's.
ENGINE_FLAGS = (
    *("--model", "--model-path", "--served-model-name", "--kv-events-config"),
    *("--kv-transfer-config", "--page-size", "--disaggregation-transfer-backend"),
    *("--disaggregation-bootstrap-port", "--host"),
)
# An engine's own parser flags are its own, and Dynamo's prefill and decode are SGLang's.
SGLANG_FLAGS = ("--disaggregation-mode",)


@needs("kubectl")
@each_overlay
def test_the_frontends_flags_are_flags(folder: Path, monkeypatch: Any) -> None:
    from dynamo.frontend.frontend_args import FrontendArgGroup

    found = [words for *_, words in each_container(folder) if "backedge.frontend" in words]
    assert found
    for words in found:
        assert words[:3] == ["python3", "-m", "backedge.frontend"]
        parser = argparse.ArgumentParser(allow_abbrev=False, exit_on_error=False)
        FrontendArgGroup().add_arguments(parser)
        parsed = parser.parse_args(parse_flags(words[3:]).other_arguments)
        assert parsed.migration_limit > 0


def parse_worker(engine: Any, words: list[str]) -> argparse.Namespace:
    """Parse the flags of Dynamo and Backedge, and take the engine's own as known."""
    from dynamo.common.configuration.groups.runtime_args import DynamoRuntimeArgGroup

    backend = importlib.import_module(f"dynamo.{engine}.backend_args")
    groups = {
        "vllm": "DynamoVllmArgGroup",
        "sglang": "DynamoSGLangArgGroup",
        "trtllm": "DynamoTrtllmArgGroup",
    }
    parser = argparse.ArgumentParser(allow_abbrev=False, exit_on_error=False)
    DynamoRuntimeArgGroup().add_arguments(parser)
    getattr(backend, groups[engine])().add_arguments(parser)
    if engine == "sglang":
        parser.add_argument("--reasoning-parser")
        parser.add_argument("--tool-call-parser")
        for flag in SGLANG_FLAGS:
            parser.add_argument(flag)
    if engine == "vllm":
        parser.add_argument("--reasoning-parser")
    flags.add_flags(parser, engine)
    known = parser._option_string_actions
    for flag in ENGINE_FLAGS:
        if flag not in known:
            parser.add_argument(flag)
    return parser.parse_args(words)


@needs("kubectl")
@each_overlay
def test_the_workers_flags_are_flags(folder: Path) -> None:
    processing = 0
    for component, container, words in each_container(folder):
        if "backedge.frontend" in words:
            continue
        assert words[:2] == ["python3", "-m"]
        if words[2] == SIDECAR:
            beside, rest = read_flags(words[3:])
            assert (beside.names.tool_call, beside.names.reasoning) == ("hermes", "qwen3")
            assert parse_arguments(rest)[0].kind == "vllm"
            processing += 1
            continue
        engine: Any = ENGINES[words[2]]
        parsed = parse_worker(engine, words[3:])
        settings = flags.read_settings(parsed, engine)
        assert (settings is None) == (component == "plain")
        assert (engine in container["image"]) or (RUNTIMES[engine] in container["image"])
        if settings is not None:
            processing += 1
            assert tool_format(settings.names.tool_call or "") is not None
            assert reasoning_format(settings.names.reasoning or "") is not None
            continue
        assert tool_format(parsed.dyn_tool_call_parser) is not None
    assert processing


PARSE_WITH_VLLM = """
import json, sys
from dynamo.vllm.args import _parse_cli_args
from vllm.entrypoints.launchers.cli_args import make_arg_parser
from vllm.utils.argparse_utils import FlexibleArgumentParser
workers, engines = json.load(sys.stdin)
for words in workers:
    _parse_cli_args(words)
for words in engines:
    assert make_arg_parser(FlexibleArgumentParser()).parse_args(words).grpc
"""


@needs("kubectl")
def test_vllms_own_parser_takes_them() -> None:
    """The whole command line, with the plugin loaded, as `python -m dynamo.vllm` reads it."""
    commands = [
        words[3:]
        for folder in OVERLAYS
        for *_, words in each_container(folder)
        if words[2] == "dynamo.vllm"
    ]
    unique = [json.loads(text) for text in sorted({json.dumps(words) for words in commands})]
    assert len(unique) == 5  # a worker, one that records, a plain one, prefill, decode
    done = subprocess.run(
        [sys.executable, "-c", PARSE_WITH_VLLM],
        input=json.dumps([unique, [find_engine()["args"]]]),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
