"""Mistakes of users: each ends with a sentence that names what is wrong and what to change."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.support import EXAMPLES, TINY_MODEL

MODEL = str(TINY_MODEL)
DOCTOR = ("-m", "backedge.cli", "doctor")
WORKER = (*DOCTOR, "--", "python", "-m", "dynamo.trtllm", "--model", MODEL, "--trtllm-processing")
REPLAY = ("-m", "backedge.worker.demo")
FRONTEND = ("-m", "backedge.frontend", "--tokenizer-backend", "huggingface")
OFFLINE = ("-m", "backedge.offline", "--model", MODEL, "--backend", "replay")
CLI = ("-m", "backedge.cli")
KIT = ("-m", "backedge.tokenization.kit")
# command, variable, what is named, what to change
MISTAKES = [
    pytest.param((*WORKER, "--tool-call-parser", "Hermess"), {}, "Hermess", "hermes", id="case"),
    pytest.param(
        (*WORKER, "--postprocess-latency-ms", "content=fast"),
        {},
        "--postprocess-latency-ms",
        "KIND=MS",
        id="words for a delay",
    ),
    pytest.param(
        (*WORKER, "--postprocess-deadline-s", "0"),
        {},
        "--postprocess-deadline-s",
        "greater than 0",
        id="no deadline",
    ),
    pytest.param(
        (*DOCTOR, "--", "python", "-m", "vllm.entrypoints.openai.run_batch", "--model", MODEL),
        {},
        "does not start a worker",
        "dynamo.vllm",
        id="vLLM's own batch",
    ),
    pytest.param((*DOCTOR, "/no/such/model"), {}, "/no/such/model", "name a folder", id="model"),
    pytest.param(
        (*REPLAY, "--tokens-per-second", "fast"), {}, "--tokens-per-second", "float", id="pace"
    ),
    pytest.param(
        (*REPLAY, "--postprocess-latency", "balancd"),
        {},
        "--postprocess-latency",
        "did you mean balanced?",
        id="value",
    ),
    pytest.param(
        (*REPLAY, "--tokenizer-backend", "python"),
        {},
        "--tokenizer-backend python",
        "--tokenizer-module",
        id="half of two flags",
    ),
    pytest.param(
        REPLAY,
        {"BACKEDGE_POSTPROCESS_LATNCY": "lowest"},
        "BACKEDGE_POSTPROCESS_LATNCY",
        "BACKEDGE_POSTPROCESS_LATENCY",
        id="variable",
    ),
    pytest.param(
        FRONTEND,
        {"BACKEDGE_PROMPT_CACHE_MB": "much"},
        "BACKEDGE_PROMPT_CACHE_MB",
        "number of MB",
        id="value of a variable",
    ),
    pytest.param(
        (*FRONTEND, "--chat-template", "no.jinja"),
        {},
        "no.jinja",
        "name a Jinja file",
        id="template",
    ),
    pytest.param(
        (*FRONTEND, "--engine-factory", "nowhere:Engine"),
        {},
        "--engine-factory nowhere:Engine",
        "nowhere",
        id="factory",
    ),
    pytest.param(
        (*FRONTEND, "--postprocess-parsers", "native"),
        {},
        "--postprocess-parsers native",
        "leave --postprocess-parsers out",
        id="native without an engine",
    ),
    pytest.param((*CLI, "inspct", "x"), {}, "inspct", "inspect", id="subcommand"),
    pytest.param((*CLI, "inspect", "no.jsonl"), {}, "no.jsonl", "--postprocess-record", id="file"),
    pytest.param(
        (*CLI, "replay", str(EXAMPLES / "stream.py")), {}, "stream.py", "", id="foreign file"
    ),
    pytest.param((*CLI, "parse", "--format", "hemes"), {}, "hemes", "hermes", id="format"),
    pytest.param((*KIT, "my_tokenizer", "--model", MODEL), {}, "my_tokenizer", ":", id="no class"),
    pytest.param(
        (*CLI, "parse", "--format", "hermes", "--tools", "no.json"),
        {},
        "--tools no.json",
        "name a JSON file",
        id="tools",
    ),
    pytest.param(
        (*REPLAY, "--discovery-backend", "zookeper"),
        {},
        "--discovery-backend 'zookeper'",
        "must be one of etcd, file",
        id="place of workers",
    ),
    pytest.param(
        (*REPLAY, "--discovery-backend", "etcd"),
        {"ETCD_ENDPOINTS": "http://127.0.0.1:1"},
        "ETCD_ENDPOINTS http://127.0.0.1:1",
        "start it",
        id="no etcd",
    ),
    pytest.param(
        REPLAY,
        {"DYN_REQUEST_PLANE": "udp"},
        "DYN_REQUEST_PLANE",
        "must be one of tcp, nats",
        id="variable of Dynamo's",
    ),
    pytest.param(
        (*DOCTOR, "ftp://gpu-1"),
        {},
        "ftp://gpu-1",
        "http:// or https://",
        id="no URL of a frontend",
    ),
    pytest.param(
        (*FRONTEND, "--http-port", "99999"), {}, "--http-port 99999", "at most 65535", id="port"
    ),
    pytest.param(
        (*DOCTOR, "--", "python", *FRONTEND, "--tool-call-parser", "hemes"),
        {},
        "--tool-call-parser 'hemes'",
        "did you mean hermes?",
        id="a frontend's parser",
    ),
    pytest.param(
        (*DOCTOR, "--", "python", "-m", "dynamo.frontend", "--router-mode", "kw"),
        {},
        "--router-mode",
        "'kv'",
        id="a stock frontend's flag",
    ),
    pytest.param(
        (str(EXAMPLES / "stream.py"), "--url", "http://127.0.0.1:1/v1", "--model", "x"),
        {},
        "--url http://127.0.0.1:1/v1",
        "Connection error",
        id="no server",
    ),
    pytest.param(
        (str(EXAMPLES / "rollout.py"), "--url", "http://127.0.0.1:1/v1"),
        {},
        "--url http://127.0.0.1:1/v1",
        "Connection error",
        id="no server for a rollout",
    ),
    pytest.param(
        (*DOCTOR, "http://127.0.0.1:1"), {}, "Connection refused", "reach", id="no frontend"
    ),
    pytest.param((*REPLAY, "--model", "./no"), {}, "no such folder", "name a", id="no folder"),
    pytest.param(
        (*FRONTEND, "--tol-call-parser", "hermes"),
        {},
        "--tol-call-parser",
        "did you mean --tool-call-parser?",
        id="a flag of the engines",
    ),
    pytest.param(
        (*FRONTEND[:3], "python", "--tokenizer-module", "no", "--tokenizer-class", "Any"),
        {},
        "no:Any",
        "set --tokenizer-module",
        id="no module",
    ),
    pytest.param(
        (*OFFLINE, "--input", "none.jsonl", "--output", "x.jsonl"),
        {},
        "none.jsonl",
        "",
        id="input",
    ),
]


@pytest.mark.parametrize(("command", "variables", "named", "change"), MISTAKES)
def test_a_mistake_is_one_sentence(command, variables, named, change, tmp_path, monkeypatch):
    # Without it, Dynamo first looks for etcd.
    monkeypatch.setenv("DYN_DISCOVERY_BACKEND", "file")
    monkeypatch.setenv("DYN_FILE_KV", str(tmp_path))
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    said = subprocess.run(
        [sys.executable, *command],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        timeout=120,
        input="",
    )
    text = " ".join(f"{said.stdout} {said.stderr}".split())
    assert "usage:" not in text
    assert "urlopen" not in text
    assert said.returncode != 0, text
    assert "Traceback" not in text, text
    assert named in text, text
    assert change in text, text
