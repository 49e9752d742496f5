"""What users may say on the command line, and what they are told."""

from __future__ import annotations

import argparse
from typing import Any

import pytest
from backedge.parsers.base import ParserNames
from backedge.postprocess.settings import MERGE_DELAYS, MergeDelays, PostprocessSettings
from backedge.recording.flags import RecordSettings
from backedge.worker import flags
from backedge.worker.pool import auto_processes

KINDS = "content, reasoning, tools, tokens"
ON = "--vllm-processing"


def parser(engine: Any = "vllm") -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog="worker")
    flags.add_flags(made, engine)
    return made


def settings(*words: str) -> flags.WorkerSettings:
    found = flags.read_settings(parser().parse_args([ON, *words]), "vllm")
    assert found is not None
    return found


def balanced(**delays: float) -> MergeDelays:
    return MergeDelays(**{"content": 0.1, "reasoning": 0.2, "tools": 0.5, "tokens": 1.0, **delays})


DELAYS_ASKED_FOR: list[tuple[list[str], MergeDelays]] = [
    ([], balanced()),
    (["--postprocess-latency", "lowest"], MergeDelays(content=0, reasoning=0, tools=0, tokens=1.0)),
    (["--postprocess-latency", "balanced"], balanced()),
    (["--postprocess-latency", "throughput"], MERGE_DELAYS["throughput"]),
    (["--postprocess-latency=lowest"], MERGE_DELAYS["lowest"]),
    (["--postprocess-latency-ms", "content=20"], balanced(content=0.02)),
    (["--postprocess-latency-ms", "content=20,tools=500"], balanced(content=0.02, tools=0.5)),
    (
        ["--postprocess-latency-ms", " content = 20 , tokens = 7 "],
        balanced(content=0.02, tokens=0.007),
    ),
    (["--postprocess-latency-ms", "content=0"], balanced(content=0.0)),
    (["--postprocess-latency-ms", "content=0.5"], balanced(content=0.0005)),
    (["--postprocess-latency-ms", "content=1e3"], balanced(content=1.0)),
    (["--postprocess-latency-ms", "content=20,content=30"], balanced(content=0.03)),
    (
        ["--postprocess-latency", "lowest", "--postprocess-latency-ms", "reasoning=40"],
        MergeDelays(content=0.0, reasoning=0.04, tools=0.0, tokens=1.0),
    ),
    (
        ["--postprocess-latency-ms", "reasoning=40", "--postprocess-latency-ms", "tools=1"],
        balanced(tools=0.001),
    ),
]


@pytest.mark.parametrize(
    ("words", "delays"), DELAYS_ASKED_FOR, ids=[" ".join(words) for words, _ in DELAYS_ASKED_FOR]
)
def test_delays(words: list[str], delays: MergeDelays) -> None:
    assert settings(*words).postprocess.delays == delays


# The flag, what follows "argument FLAG: " ("{}" for the value's repr), and values.
REFUSED_AS: list[tuple[str, str, list[str]]] = [
    (
        "--postprocess-latency-ms",
        "{} is not KIND=MS with a number of milliseconds",
        [
            "",
            "20",
            "content",
            "content=",
            "content=fast",
            "content=20ms",
            "content=2=3",
            "content=20;tools=3",
        ],
    ),
    (
        "--postprocess-latency-ms",
        "{}: a delay must be 0 or more",
        ["content=-1", "content=inf", "content=nan", "content=20,tools=-0.1"],
    ),
    (
        "--postprocess-workers",
        "{} is neither 'auto' nor a number from 0",
        ["", "-1", "1.5", "2 ", "many", "Auto", "²", "1" * 5000],
    ),
    (
        "--postprocess-memory-mb",
        "{} is not a number of MiB from 0",
        ["", "-1", "1.5", "1g", "²", "1" * 5000],
    ),
    (
        "--postprocess-deadline-s",
        "{} is not a number of seconds greater than 0",
        ["0", "-2", "inf", "nan", "2s", ""],
    ),
    (
        "--postprocess-latency",
        "invalid choice: {} (choose from 'lowest', 'balanced', 'throughput')",
        ["fast", ""],
    ),
    (
        "--postprocess-parsers",
        "invalid choice: {} (choose from 'auto', 'linear', 'native')",
        ["both"],
    ),
    ("--postprocess-on-error", "invalid choice: {} (choose from 'degrade', 'fail')", ["ignore"]),
]
MILLISECONDS, NO_KIND = REFUSED_AS[0][1], f"there is no kind {{}}; the kinds are {KINDS}"
REFUSED = [
    *((flag, text, said.format(repr(text))) for flag, said, texts in REFUSED_AS for text in texts),
    ("--postprocess-latency-ms", "content=20,", MILLISECONDS.format("''")),
    ("--postprocess-latency-ms", "contents=20", NO_KIND.format("contents")),
    ("--postprocess-latency-ms", "=20", NO_KIND.format("")),
    ("--postprocess-latency-ms", "Content=20", NO_KIND.format("Content")),
    ("--postprocess-latency-ms", "b=2,content=1,a=1", NO_KIND.format("a, b")),
]


@pytest.mark.parametrize(
    ("flag", "value", "message"), REFUSED, ids=[f"{flag}={value}" for flag, value, _ in REFUSED]
)
def test_a_value_that_means_nothing_is_refused(
    flag: str, value: str, message: str, capsys: Any
) -> None:
    with pytest.raises(SystemExit) as ended:
        settings(f"{flag}={value}")
    assert ended.value.code == 2
    assert capsys.readouterr().err.splitlines()[-1] == f"worker: error: argument {flag}: {message}"


@pytest.mark.parametrize(
    "flag", [flag for (flag, *_), options in flags.list_flags("vllm") if "action" not in options]
)
def test_a_flag_without_its_value_is_refused(flag: str, capsys: Any) -> None:
    with pytest.raises(SystemExit) as ended:
        settings(flag)
    assert ended.value.code == 2
    assert capsys.readouterr().err.endswith(f"error: argument {flag}: expected one argument\n")


AUTO = auto_processes()
# The words, and how many processes that gives linear and native parsers.
PROCESSES: list[tuple[list[str], int]] = [
    ([], AUTO),
    (["--postprocess-workers", "auto"], AUTO),
    (["--postprocess-workers", "0"], 0),
    (["--postprocess-workers", "1"], 1),
    (["--postprocess-workers", "012"], 12),
    (["--postprocess-workers", "64"], 64),
]


@pytest.mark.parametrize(
    ("words", "native"), PROCESSES, ids=[" ".join(words) for words, _ in PROCESSES]
)
def test_only_native_parsers_get_processes(words: list[str], native: int) -> None:
    found = settings(*words)
    assert found.pool_processes(is_native=True) == native
    assert found.pool_processes(is_native=False) == 0


@pytest.mark.parametrize(
    ("cores", "processes"), [(1, 0), (7, 0), (8, 1), (15, 1), (16, 2), (32, 4), (128, 4)]
)
def test_auto_takes_a_few_where_cores_are_free(
    cores: int, processes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(cores)))
    assert settings().pool_processes(is_native=True) == processes


@pytest.mark.parametrize(
    ("words", "seconds"), [([], 2.0), (["0.25"], 0.25), (["1e2"], 100.0), (["3"], 3.0)]
)
def test_deadlines(words: list[str], seconds: float) -> None:
    found = settings(*(["--postprocess-deadline-s", *words] if words else []))
    assert found.postprocess.deadline_s == seconds


EVERYTHING: list[tuple[list[str], dict[str, Any]]] = [
    ([], {}),
    (["--tool-call-parser", "hermes"], {"names": ParserNames("hermes")}),
    (["--tool-call-parser", ""], {}),
    (["--reasoning-parser", "qwen3"], {"names": ParserNames(reasoning="qwen3")}),
    (["--reasoning-parser", ""], {}),
    (["--tool-parser-plugin", "my.py"], {"tool_parser_plugin": "my.py"}),
    (["--postprocess-parsers", "native"], {"parsers": "native"}),
    (["--postprocess-on-error", "fail"], {"postprocess": PostprocessSettings(on_error="fail")}),
    (
        ["--postprocess-malformed-calls", "repair"],
        {"postprocess": PostprocessSettings(malformed_calls="repair")},
    ),
    (["--postprocess-workers", "3"], {"workers": 3}),
    (["--postprocess-deadline-s", "9"], {"postprocess": PostprocessSettings(deadline_s=9.0)}),
    (["--postprocess-memory-mb", "0"], {"postprocess": PostprocessSettings(memory_mb=0)}),
    (
        ["--postprocess-latency", "throughput"],
        {"postprocess": PostprocessSettings(delays=MERGE_DELAYS["throughput"])},
    ),
    (["--postprocess-record", "d:0.5"], {"record": RecordSettings(folder="d", sample=0.5)}),
    (["--postprocess-record-content", "on"], {}),
]


@pytest.mark.parametrize(
    ("words", "fields"), EVERYTHING, ids=[" ".join(words) for words, _ in EVERYTHING]
)
def test_settings(words: list[str], fields: dict[str, Any]) -> None:
    assert settings(*words) == flags.WorkerSettings(**fields)


@pytest.mark.parametrize("switch", flags.enabling_flags("vllm"))
def test_both_names_of_the_switch(switch: str) -> None:
    assert flags.read_settings(parser().parse_args([switch]), "vllm") == flags.WorkerSettings()


def test_without_the_switch_there_are_no_settings() -> None:
    assert flags.read_settings(parser().parse_args(["--postprocess-workers", "3"]), "vllm") is None
    assert flags.read_settings(argparse.Namespace(), "vllm") is None


def test_flags_that_a_parser_has_already_stay_its_own() -> None:
    """A frontend has vLLM's server flags, too."""
    theirs = argparse.ArgumentParser()
    theirs.add_argument("--tool-call-parser", default="theirs")
    flags.add_flags(theirs, "vllm")
    assert theirs.parse_args([]).tool_call_parser == "theirs"


# Values for flags without choices that do not take "1".
SPECIAL = {"--postprocess-record": "a:0.5", "--postprocess-latency-ms": "content=20"}


@pytest.mark.parametrize("engine", ["vllm", "sglang", "trtllm"])
def test_each_flag_has_a_variable_that_the_help_names(
    engine: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = parser(engine).format_help()
    for names, options in flags.list_flags(engine):
        for name in names:
            value = SPECIAL.get(name, [*(options.get("choices") or "1")][-1])
            words = [name] if options.get("action") else [name, value]
            variable = f"BACKEDGE_{name.removeprefix('--').replace('-', '_').upper()}"
            assert variable in text
            for given, expected in ((value, words), ("", [])):
                monkeypatch.setenv(variable, given)
                found = parser(engine).parse_args([])
                monkeypatch.delenv(variable)
                assert found == parser(engine).parse_args(expected)


def test_the_command_line_takes_precedence_over_a_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BACKEDGE_POSTPROCESS_ON_ERROR", "fail")
    assert settings().postprocess.on_error == "fail"
    assert settings("--postprocess-on-error", "degrade").postprocess.on_error == "degrade"


def test_an_engine_s_own_flag_takes_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    theirs = argparse.ArgumentParser()
    theirs.add_argument("--reasoning-parser", choices=["theirs"])
    monkeypatch.setenv("BACKEDGE_REASONING_PARSER", "theirs")
    flags.add_flags(theirs, "sglang")
    assert theirs.parse_args([]).reasoning_parser == "theirs"


@pytest.mark.parametrize("latency", MERGE_DELAYS)
def test_the_help_names_the_delays(latency: Any) -> None:
    text = " ".join(parser().format_help().split())
    if latency != "lowest":
        assert flags.describe_latency(latency) in text
    assert f"{MERGE_DELAYS[latency].tokens * 1000:g} ms" in flags.describe_latency(latency)


def test_flags_are_added_once():
    parser = argparse.ArgumentParser()
    flags.add_flags(parser, "vllm")
    before = parser.parse_args([])
    flags.add_flags(parser, "vllm")
    assert parser.parse_args([]) == before
    assert before.postprocess_latency == "balanced"
