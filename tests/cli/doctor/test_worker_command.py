"""A worker's command line is checked against its model, without an engine."""

from __future__ import annotations

from typing import NoReturn

import pytest
from backedge.base.errors import SetupError
from backedge.cli.doctor import worker_command
from backedge.cli.doctor.model import read_model
from backedge.cli.doctor.worker_command import (
    MODULES,
    check_command,
    check_vllm_parsers,
    parse_worker_command,
)
from backedge.parsers.base import ParserNames

from tests.cli.doctor.test_model import write_model
from tests.parsers.chat_templates import build_template
from tests.parsers.made_up import write_model as write_described
from tests.support import TINY_MODEL

TINY = read_model(str(TINY_MODEL), None, None)
VLLM = ("python", "-m", "dynamo.vllm", "--model", str(TINY_MODEL))
BOTH = ("--tool-call-parser", "hermes", "--reasoning-parser", "qwen3")


def check(*words, facts=TINY):
    """Return the findings by severity: pairs of topic and message with fix."""
    found = check_command(parse_worker_command([*VLLM, *words]), facts)
    return [
        (one.severity, one.topic, f"{one.message} {one.fix}")
        for one in found
        if one.severity != "ok"
    ]


@pytest.mark.parametrize("module", MODULES)
def test_every_worker_is_known(module) -> None:
    others = [] if module == "backedge.worker.demo" else ["--one-of-the-engine", "1"]
    command = parse_worker_command(["python3", "-m", module, "--model", "m", *others])
    assert command.engine == MODULES[module]
    assert command.model == "m"
    always = {"backedge.worker.demo", "backedge.worker.transformers"}
    assert command.is_on == (module in always)


def test_flags_of_each_engine() -> None:
    sglang = [
        *("python", "-m", "dynamo.sglang", "--model-path", "m", "--sglang-processing"),
        *("--context-length", "99", "--chat-template", "c.jinja", "--revision", "r"),
    ]
    command = parse_worker_command(sglang)
    assert (command.model, command.is_on, command.context_length) == ("m", True, 99)
    assert (command.chat_template, command.revision) == ("c.jinja", "r")


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (["python", "-m", "http.server"], "does not start a worker or a frontend"),
        ([*VLLM, "--vllm-procesing"], "no flag --vllm-procesing; did you mean --vllm-processing?"),
        ([*VLLM, "--tol-call-parser", "x"], "did you mean --tool-call-parser?"),
        ([*VLLM, "--reasonning-parser=x"], "did you mean --reasoning-parser?"),
        ([*VLLM, "--postprocess-latncy", "x"], "did you mean --postprocess-latency?"),
        ([*VLLM, "--postprocess-record", "a:2"], "share of requests must be from 0 to 1"),
        (["python", "-m", "dynamo.vllm"], "has no model; add --model"),
        ([*VLLM, "--postprocess-parsers", "nope"], "--postprocess-parsers"),
    ],
)
def test_commands_that_cannot_be(words, part) -> None:
    with pytest.raises(SetupError, match=part):
        parse_worker_command(words)


def test_a_command_that_fits_has_no_complaint() -> None:
    assert check("--vllm-processing", *BOTH) == []
    assert check("--vllm-processing", "--tool-call-parser", "auto", *BOTH[2:]) == []
    dyn = ("--dyn-tool-call-parser", "qwen25", "--dyn-reasoning-parser", "qwen3")
    assert check("--vllm-processing", *BOTH, *dyn, "--max-model-len", "32k") == []


# Flags, and the one complaint: severity, topic and a part of what is said.
COMPLAINTS = [
    (("--tool-call-parser", "qwen3_coder"), "error", "tool calls", "clients get calls as text"),
    (("--tool-call-parser", "qwen3_coder"), "error", "tool calls", "--tool-call-parser hermes"),
    (("--tool-call-parser", "xlam"), "note", "tool calls", "hermes fits better"),
    (("--tool-call-parser", "hemes"), "error", "parsers", "did you mean hermes?"),
    (("--tool-call-parser", ""), "warning", "tool calls", "clients get them as text"),
    (("--reasoning-parser", ""), "warning", "reasoning", "thoughts in the answer"),
    (("--reasoning-parser", "granite"), "error", "reasoning", "--reasoning-parser qwen3"),
    (("--reasoning-parser", "template"), "error", "reasoning", "no `response_template`"),
    (("--max-model-len", "4096"), "warning", "context", "4,096"),
    (("--tokenizer-class", "C"), "error", "flags", "--tokenizer-class"),
    (("--dyn-tool-call-parser", "mistral"), "warning", "stock frontends", "-parser hermes"),
    (("--dyn-reasoning-parser", "granite"), "warning", "stock frontends", "-parser qwen3"),
]


@pytest.mark.parametrize(("words", "severity", "topic", "part"), COMPLAINTS)
def test_complaints(words, severity, topic, part) -> None:
    [(found_severity, found_topic, text)] = check("--vllm-processing", *BOTH, *words)
    assert (found_severity, found_topic) == (severity, topic)
    assert part in text


class EngineParsers:
    """Knows all names."""

    def check_names(self, *_: object) -> None:
        pass


def not_installed(*_: object) -> NoReturn:
    raise ModuleNotFoundError(name="vllm")


@pytest.mark.parametrize(
    ("load", "severity", "part"),
    [
        (lambda *_: EngineParsers(), "ok", "hemes: a parser of vllm"),
        (not_installed, "warning", "did you mean 'hermes'?"),
    ],
)
def test_the_engine_judges_names_of_no_linear_parser(load, severity, part, monkeypatch) -> None:
    monkeypatch.setattr(worker_command, "load_native_parsers", load)
    words = ("--vllm-processing", "--tool-call-parser", "hemes", *BOTH[2:])
    found = check_command(parse_worker_command([*VLLM, *words]), TINY)
    [finding] = [one for one in found if one.topic == "parsers"]
    assert (finding.severity, part in f"{finding.message} {finding.fix}") == (severity, True)


IN_RUST = ("--dyn-tool-call-parser", "hermes", "--dyn-reasoning-parser", "qwen3")


def test_without_the_switch_its_flags_have_no_effect() -> None:
    [(severity, _, text)] = check("--postprocess-latency", "lowest", *IN_RUST)
    assert severity == "warning"
    assert "--postprocess-latency has no effect" in text
    assert "add --vllm-processing" in text
    [(severity, *_)] = check(*IN_RUST)
    assert severity == "note"


def test_a_plain_worker_without_parsers_leaks_reasoning_and_calls() -> None:
    _, *found = check()
    assert [(severity, topic) for severity, topic, _ in found] == [
        ("warning", "tool calls"),
        ("warning", "reasoning"),
    ]
    assert all("on the frontend" in text for *_, text in found)


def test_a_model_that_does_not_reason_has_no_content_with_a_reasoning_parser(tmp_path) -> None:
    facts = write_model(tmp_path, build_template("hermes"), max_position_embeddings=9)
    [(severity, _, text)] = check("--vllm-processing", *BOTH, facts=facts)
    assert severity == "error"
    assert "clients get no content" in text
    assert "leave --reasoning-parser out" in text


@pytest.mark.parametrize(
    ("words", "part"),
    [
        ([], "the table can be made"),
        (["--postprocess-parsers", "native"], "because --postprocess-parsers native asks"),
    ],
)
def test_a_described_model(words, part, tmp_path) -> None:
    facts = read_model(str(write_described(tmp_path / "model")), None, None)
    flags = ["--vllm-processing", "--tool-call-parser", "template", *words]
    [found] = [
        one
        for one in check_command(parse_worker_command([*VLLM, *flags]), facts)
        if one.topic == "tool calls"
    ]
    assert found.severity == "ok"
    assert part in found.message


def test_a_model_without_a_description_has_no_such_parser() -> None:
    found = check("--vllm-processing", "--tool-call-parser", "template")
    [(severity, text)] = [
        (severity, text) for severity, topic, text in found if topic == "tool calls"
    ]
    assert severity == "error"
    assert "the model has no `response_template` that describes it" in text


def test_auto_that_finds_nothing_does_not_start(tmp_path) -> None:
    facts = write_model(tmp_path, "{{ messages }}", max_position_embeddings=9)
    auto = ("--tool-call-parser", "auto", "--reasoning-parser", "auto")
    found = check("--vllm-processing", *auto, facts=facts)
    assert [severity for severity, *_ in found] == ["error", "error"]
    assert "will not start: the chat template takes no tools" in found[0][2]


def test_a_parser_of_vllms_that_lacks_its_tokens_is_found() -> None:
    [finding] = check_vllm_parsers(TINY, ParserNames("deepseek_v3"))
    assert finding.severity == "warning"
    assert "HTTP 500" in finding.message
    [finding] = check_vllm_parsers(TINY, ParserNames("hermes"))
    assert finding.severity == "ok"
    # vLLM leaves a parser out that it does not have.
    assert list(check_vllm_parsers(TINY, ParserNames("nemotron_deci"))) == []
