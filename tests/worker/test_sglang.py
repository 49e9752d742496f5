"""What SGLang's adapter does before the engine loads, and how its flags get in."""

from __future__ import annotations

import argparse
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest
from backedge.parsers.base import ParserNames
from backedge.parsers.errors import SetupError, UnknownParserError
from backedge.tokenization.detokenizer import detokenizers
from backedge.tokenization.flags import TokenizerSelection
from backedge.worker import flags
from backedge.worker.adapters import sglang

from tests.support import TINY_MODEL

SETTINGS = flags.WorkerSettings()


def config(mode: str = "agg", dynamo: str = "") -> Any:
    """Return Dynamo's configuration. dynamo: one of its flags that is set."""
    kinds = dict.fromkeys((*sglang.OTHER_WORKERS, "use_sglang_tokenizer"), False)
    server_args = SimpleNamespace(
        model_path=str(TINY_MODEL),
        tokenizer_path=None,
        tokenizer_mode="auto",
        trust_remote_code=False,
        revision=None,
    )
    return SimpleNamespace(
        serving_mode=SimpleNamespace(value=mode),
        dynamo_args=SimpleNamespace(**{**kinds, dynamo: True}),
        server_args=server_args,
    )


def test_text_mode_is_refused() -> None:
    with pytest.raises(SetupError, match="--use-sglang-tokenizer"):
        sglang.SglangWorker.enable(config(dynamo="use_sglang_tokenizer"), SETTINGS)


@pytest.mark.parametrize("names", [ParserNames("auto"), ParserNames(reasoning="auto")])
def test_unknown_names_are_refused_with_the_known_ones(names: ParserNames) -> None:
    # SGLang's own command line lets "auto" through besides the names.
    with pytest.raises(UnknownParserError, match="qwen"):
        sglang.SglangWorker.enable(config(), flags.WorkerSettings(names=names))


@pytest.mark.parametrize(
    ("worker", "expected"),
    [
        (config("agg"), True),
        (config("decode"), True),
        (config("prefill"), False),
        (config("encode"), False),
        *((config(dynamo=kind), False) for kind in sglang.OTHER_WORKERS),
    ],
)
def test_who_post_processes(worker: Any, expected: bool) -> None:
    assert sglang.SglangWorker(worker, SETTINGS).post_processes() is expected


@pytest.mark.parametrize(
    ("kind", "name"), [("linear", "LinearParsers"), ("native", "SglangParsers")]
)
def test_the_parsers_are_made_for_sglangs_tokenizer(kind: Any, name: str) -> None:
    names = ParserNames("hermes", "qwen3")
    settings = flags.WorkerSettings(names=names, parsers=kind)
    tokenizer, parsers, arguments = sglang.SglangWorker(config(), settings).load()
    assert type(parsers).__name__ == name
    again, parsers_again = sglang.pool_parts(names, **arguments)
    assert parsers_again.name == parsers.name == "qwen3+hermes"
    assert detokenizers(again).is_special(tokenizer.eos_token_id)


def parser() -> argparse.ArgumentParser:
    """Return a command line with SGLang's flags and ours."""
    from sglang.srt.server_args import ServerArgs

    made = argparse.ArgumentParser()
    # Without what the entry point, which is installed here, has done to it.
    getattr(ServerArgs.add_cli_args, "__wrapped__", ServerArgs.add_cli_args)(made)
    flags.add_to(made, "sglang")
    return made


@pytest.mark.parametrize(
    ("words", "fields"),
    [
        ([], {}),
        (["--tool-call-parser", "qwen25", "--reasoning-parser", "qwen3"], {}),
        (
            ["--postprocess-parsers", "native", "--postprocess-workers", "3"],
            {"parsers": "native", "workers": 3},
        ),
        (["--tokenizer-backend", "fastokens"], {}),
        (
            ["--tokenizer-backend", "python", "--tokenizer-module", "m", "--tokenizer-class", "C"],
            {"tokenizer": TokenizerSelection("python", "m", "C")},
        ),
    ],
)
@pytest.mark.parametrize("switch", flags.enabling_flags("sglang"))
def test_flags(switch: str, words: list[str], fields: dict[str, Any]) -> None:
    if "qwen3" in words:
        fields = {"names": ParserNames("qwen25", "qwen3")}
    arguments = parser().parse_args(["--model-path", "m", switch, *words])
    assert flags.settings(arguments, "sglang") == flags.WorkerSettings(**fields)


def test_without_the_switch_there_are_no_settings() -> None:
    assert flags.settings(parser().parse_args(["--model-path", "m"]), "sglang") is None


# What is said on the command line, and what is left of it for the engine.
ENGINES_PART = [
    ([], (None, None, "huggingface")),
    (
        ["--tool-call-parser", "qwen25", "--reasoning-parser", "qwen3"],
        ("qwen25", "qwen3", "huggingface"),
    ),
    # vLLM's names for what SGLang calls otherwise, and a format that SGLang has not.
    (
        ["--tool-call-parser", "deepseek_v31", "--reasoning-parser", "deepseek_r1"],
        ("deepseekv31", "deepseek-r1"),
    ),
    (["--tool-call-parser", "granite-20b-fc", "--reasoning-parser", "olmo3"], (None, None)),
    (["--tokenizer-backend", "fastokens"], (None, None, "fastokens")),
    (["--tokenizer-backend", "vllm"], (None, None, "huggingface")),
]


@pytest.mark.parametrize(
    ("words", "left"), ENGINES_PART, ids=[" ".join(words) for words, _ in ENGINES_PART]
)
def test_the_engine_gets_what_it_knows(words: list[str], left: tuple[str | None, ...]) -> None:
    arguments = parser().parse_args(["--model-path", "m", "--sglang-processing", *words])
    settings = flags.settings(arguments, "sglang")
    flags.keep_engine_choices(arguments)
    found = (arguments.tool_call_parser, arguments.reasoning_parser, arguments.tokenizer_backend)
    assert found[: len(left)] == left
    if len(words) > 2:
        assert settings is not None
        assert settings.names == ParserNames(words[1], words[3])


class Configured:
    """Dynamo's `Config`, as far as it is wrapped."""

    def __init__(self, server_args: str) -> None:
        self.server_args = server_args


@pytest.mark.parametrize(("words", "enabled"), [(["--sglang-processing"], ["first"]), ([], [])])
def test_the_first_configuration_behind_the_flag_is_the_workers(
    words: list[str], enabled: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from dynamo.sglang import args

    seen: list[str] = []
    monkeypatch.setattr(args, "Config", Configured)
    monkeypatch.setattr(type(sglang.ENGINE), "check_patch_points", lambda _: None)
    monkeypatch.setattr(
        sglang.SglangWorker, "enable", lambda made, settings: seen.append(made.server_args)
    )
    made = parser()
    sglang.watch_arguments(made)
    made.parse_args(["--model-path", "m", *words])
    assert [args.Config(name).server_args for name in ("first", "second")] == ["first", "second"]
    assert seen == enabled


# What is run in a fresh process, and what it prints.
OURS = "print(sorted(name for name in sys.modules if name.startswith('backedge.')))"
ENTRY_POINT = (
    f"import sys; from backedge.worker import plugin; print(plugin.register_sglang()); {OURS}"
)
ADDED = (
    "import argparse, sys; import sglang.srt.platforms as p; p._resolve_platform();"
    "from sglang.srt.server_args import ServerArgs; from backedge.worker import plugin; {then};"
    "parser = argparse.ArgumentParser(); ServerArgs.add_cli_args(parser);"
    "print('--sglang-processing' in parser.format_help())"
)
PROCESSES = [
    (
        "the entry point imports nothing",
        ENTRY_POINT,
        {},
        "None\n['backedge.worker', 'backedge.worker.plugin']\n",
    ),
    ("sglang's own server", ADDED.format(then="pass"), {}, "False\n"),
    ("dynamo's worker", ADDED.format(then="sys.modules['dynamo.sglang.args'] = sys"), {}, "True\n"),
    (
        "a list of plugins without ours",
        ADDED.format(then="sys.modules['dynamo.sglang.args'] = sys"),
        {"SGLANG_PLUGINS": "others"},
        "False\n",
    ),
    (
        "and started by us",
        ADDED.format(then="plugin.register_sglang(); sys.modules['dynamo.sglang.args'] = sys"),
        {"SGLANG_PLUGINS": "others"},
        "True\n",
    ),
]


@pytest.mark.parametrize(
    ("program", "environment", "printed"),
    [case[1:] for case in PROCESSES],
    ids=[case[0] for case in PROCESSES],
)
def test_how_the_flags_get_in(
    program: str, environment: dict[str, str], printed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("SGLANG_USE_CPU_ENGINE", "1")
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == printed
