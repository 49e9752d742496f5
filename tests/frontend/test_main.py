"""The frontend's own flags, and what Dynamo is asked for."""

import argparse
import gc
import os
import socket
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from backedge.base.errors import SetupError
from backedge.frontend import flags as frontend_flags
from backedge.frontend import main
from backedge.frontend.handover import PROCESSING
from backedge.recording.flags import RecordSettings
from backedge.tokenization.tokenizer_selection import TokenizerSelection

TEMPLATE = Path(__file__).parents[2] / "examples/tiny_model/chat_template.jinja"
SWITCHES = PROCESSING[0]
LINEAR = ["--postprocess-parsers", "linear"]
# arguments, engines that are there, back end, whose command line, what is left for Dynamo
FLAGS = [
    ([], "vllm sglang", None, "vllm", []),
    ([], "sglang", None, "sglang", []),
    ([], "", None, "sglang", []),
    (["--router-mode", "kv"], "vllm", None, "vllm", ["--router-mode", "kv"]),
    (["--tokenizer-backend", "huggingface", "--x"], "vllm", "huggingface", "sglang", ["--x"]),
    (["--tokenizer-backend", "sglang", "--x"], "vllm sglang", "sglang", "sglang", ["--x"]),
    (
        ["--tokenizer-backend", "sglang", "--postprocess-parsers", "native"],
        "sglang",
        "sglang",
        "sglang",
        [],
    ),
    (["--tokenizer-backend", "vllm"], "vllm", "vllm", "vllm", []),
    (["--dyn-chat-processor", "vllm"], "vllm", "vllm", "vllm", []),
    (["--dyn-chat-processor", "sglang", "--x"], "sglang", "sglang", "sglang", ["--x"]),
    (LINEAR, "vllm", None, "vllm", LINEAR),
    *(([flag], "vllm sglang", None, "vllm", []) for flag in SWITCHES),
    *(([flag], "sglang", None, "sglang", []) for flag in SWITCHES),
    *(([flag], "", None, "sglang", []) for flag in SWITCHES),
    ([*SWITCHES, "--x"], "", None, "sglang", ["--x"]),
    (LINEAR, "", None, "sglang", []),
]


@pytest.mark.parametrize(("arguments", "engines", "backend", "processor", "left"), FLAGS)
def test_what_is_asked_of_a_frontend(installed, arguments, engines, backend, processor, left):
    installed(engines)
    flags = frontend_flags.parse_flags(arguments)
    assert (flags.tokenizer.backend, flags.chat_processor, flags.other_arguments) == (
        backend,
        processor,
        left,
    )


@pytest.mark.parametrize(
    "arguments",
    [
        ["--dyn-chat-processor", "sglang"],  # which is not installed
        ["--dyn-chat-processor", "dynamo"],
        ["--dyn-chat-processor", "vllm", "--tokenizer-backend", "huggingface"],
        ["--tokenizer-backend", "sglang"],
    ],
)
def test_flags_that_contradict_each_other_end_the_process(installed, arguments):
    installed("vllm")
    with pytest.raises(SystemExit, match="--"):
        frontend_flags.parse_flags(arguments)


@pytest.mark.usefixtures("collector")
@pytest.mark.parametrize(
    ("arguments", "size"),
    [([], 256), (["--prompt-cache-mb", "9"], 9), (["--prompt-cache-mb=0"], 0)],
)
def test_the_cache_of_prompts_has_the_size_of_its_flag(installed, arguments, size):
    installed("")
    flags = frontend_flags.parse_flags([*arguments, "--x"])
    assert flags.other_arguments == ["--x"]
    factory: Any = main.build_engine_factory(config(), model_flags(), flags)
    assert factory.prompt_cache.capacity == size * 2**20


def test_help_begins_with_the_flags_of_this_frontend(installed, capsys):
    installed("")
    assert frontend_flags.parse_flags(["--help"]).other_arguments == ["--help"]
    shown = capsys.readouterr().out
    for name in "tokenizer-backend allow-tokenizer-module keep-turns postprocess-parsers".split():
        assert f"\n  --{name} " in shown
        assert f"[BACKEDGE_{name.replace('-', '_').upper()}]" in "".join(shown.split())


def test_flags_may_be_variables(installed, monkeypatch):
    installed("")
    monkeypatch.setenv("BACKEDGE_ALLOW_TOKENIZER_MODULE", "one,two")
    monkeypatch.setenv("BACKEDGE_POSTPROCESS_PARSERS", "linear")
    monkeypatch.setenv("BACKEDGE_KEEP_TURNS", "exact")
    flags = frontend_flags.parse_flags(["--allow-tokenizer-module", "three"])
    assert flags.allowed_modules == ("one", "two", "three")
    assert flags.turns is not None
    assert (flags.parsers, flags.turns.mode) == ("linear", "exact")


def test_recording_is_as_its_flags_say(installed):
    installed("")
    flags = frontend_flags.parse_flags(["--postprocess-record", "d:0.1", "--x"])
    assert flags.other_arguments == ["--x"]
    assert flags.record == RecordSettings(folder="d", sample=0.1)
    assert frontend_flags.parse_flags(["--postprocess-record-content", "on"]).record is None


@pytest.mark.parametrize("size", ["-1", "1.5", "many"])
def test_a_size_that_is_none_ends_the_process(installed, capsys, size):
    installed("")
    with pytest.raises(SystemExit):
        frontend_flags.parse_flags(["--prompt-cache-mb", size])
    assert f"--prompt-cache-mb: '{size}' is not a number of MB" in capsys.readouterr().err


def config(**fields):
    return SimpleNamespace(
        **{
            "preprocess_workers": 0,
            "exclude_tools_when_tool_choice_none": True,
            "trust_remote_code": False,
            "http_host": "127.0.0.1",
            "http_port": 0,
            "interactive": False,
            "discovery_backend": "file",
            **fields,
        }
    )


def model_flags(**fields):
    return argparse.Namespace(
        **{"tool_call_parser": None, "reasoning_parser": None, "chat_template": None, **fields}
    )


@pytest.fixture
def collector():
    yield
    gc.unfreeze()


@pytest.mark.usefixtures("collector")
def test_the_factory_has_our_defaults_of_dynamos_variables(monkeypatch):
    kept, default, *_ = main.ENVIRONMENT
    monkeypatch.setenv(kept, "7")
    monkeypatch.setenv(default, "")  # so that it is as before after the test
    monkeypatch.delenv(default)
    ours = frontend_flags.FrontendFlags(TokenizerSelection(), "linear", [])
    assert main.build_engine_factory(config(), model_flags(), ours)
    assert (os.environ[kept], os.environ[default]) == ("7", main.ENVIRONMENT[default])


# what cannot be served, and what the message names
UNSERVED = [
    ({"user_engine": "no_such_module:Engine"}, {}, "no_such_module:Engine"),
    ({}, {"preprocess_workers": 2}, "--dyn-preprocess-workers 2"),
    ({}, {"http_port": 99999}, "--http-port 99999: a port is at most 65535"),
    ({}, {"http_port": -1}, "--http-port -1: a port is at most 65535"),
]


@pytest.mark.parametrize(("flags", "fields", "text"), UNSERVED)
def test_what_cannot_be_served_is_refused(flags, fields, text):
    ours = frontend_flags.FrontendFlags(TokenizerSelection(), "auto", [], **flags)
    given: Any = SimpleNamespace(**vars(config()) | fields)
    with pytest.raises(SetupError, match=text):
        main.check_start(given, model_flags(), ours)


# flags of models, back end, the engines that are installed
SERVED = [
    ({"tool_call_parser": "hermes", "reasoning_parser": "qwen3"}, None, "vllm sglang"),
    ({"tool_call_parser": "hermes", "postprocess_parsers": "linear"}, "huggingface", ""),
    ({"tool_call_parser": "my_own", "tool_parser_plugin": "my.py"}, "vllm", "vllm"),
    ({"tool_call_parser": "template", "postprocess_parsers": "native"}, "huggingface", ""),
    ({"chat_template": str(TEMPLATE)}, "vllm", "vllm"),
    ({"chat_template": ""}, None, "vllm"),
]
# The same, and what the message names.
REFUSED = [
    ({"tool_call_parser": "hemes"}, None, "", "--tool-call-parser 'hemes'.* mean hermes"),
    ({"tool_call_parser": "hemes"}, "python", "vllm", "--tool-call-parser 'hemes'.* mean hermes"),
    ({"reasoning_parser": "qwen33", "postprocess_parsers": "linear"}, None, "vllm", "mean qwen3"),
    ({"postprocess_parsers": "native"}, "huggingface", "vllm", "only --tokenizer-backend vllm and"),
    ({"chat_template": "/nowhere/x.jinja"}, "huggingface", "vllm", "/nowhere/x.jinja cannot be re"),
    ({"chat_template": "nowhere.jinja"}, None, "sglang", "nowhere.jinja cannot be read"),
    ({"chat_template": "{{ text }}"}, "huggingface", "vllm", "cannot be read"),
]


@pytest.mark.parametrize(("fields", "backend", "engines"), SERVED)
def test_parsers_and_templates_that_exist_are_accepted(installed, fields, backend, engines):
    installed(engines)
    main.check_model_flags(model_flags(**fields), backend)


@pytest.mark.parametrize(("fields", "backend", "engines", "text"), REFUSED)
def test_what_no_model_could_be_served_with_is_refused(installed, fields, backend, engines, text):
    installed(engines)
    with pytest.raises(SetupError, match=text):
        main.check_model_flags(model_flags(**fields), backend)


def test_a_template_that_is_no_jinja_is_refused(installed, tmp_path):
    installed("vllm")
    (tmp_path / "broken.jinja").write_text("{% if %}")
    with pytest.raises(SetupError, match="the chat template cannot be compiled"):
        main.check_model_flags(model_flags(chat_template=f"{tmp_path}/broken.jinja"), None)


def test_vllm_reads_what_is_no_file(installed, monkeypatch):
    installed("vllm")
    read: list[str] = []
    module = SimpleNamespace(check_template_name=read.append)
    monkeypatch.setattr(main, "load_engine_module", lambda *_: module)
    for given in ("{{ text }}", "/nowhere/x.jinja"):
        main.check_model_flags(model_flags(chat_template=given), None)
    assert read == ["{{ text }}", "/nowhere/x.jinja"]


def test_a_taken_port_ends_the_process():
    flags = frontend_flags.FrontendFlags(TokenizerSelection("huggingface"), "auto", [])
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        taken = {"http_host": "127.0.0.1", "http_port": port}

        def start(**more):
            found = (config(**taken, **more), None, None)
            main.with_checks(lambda: found, flags)()

        start(interactive=True)
        with pytest.raises(SystemExit, match=f"--http-port {port} on"):
            start()


def test_flags_are_checked_once_dynamo_has_parsed_them():
    flags = frontend_flags.FrontendFlags(TokenizerSelection("huggingface"), "auto", [])

    def parse(fields, **configured):
        parsed = (config(**configured), None, model_flags(**fields))
        return main.with_checks(lambda: parsed, flags)() is parsed

    assert parse({"tool_call_parser": "hermes"})
    with pytest.raises(SystemExit, match="mean hermes"):
        parse({"tool_call_parser": "hemes"})
    with pytest.raises(SystemExit, match=r"--http-port 8000 on 192\.0\.2\.1: Cannot assign"):
        parse({}, http_host="192.0.2.1", http_port=8000)


def test_a_frontends_threads_change_often(monkeypatch):
    def refuse():
        raise SystemExit("this Dynamo is not supported")

    monkeypatch.setattr(main, "check_dynamo", refuse)
    monkeypatch.setattr("backedge.frontend.main.gc_freeze.pause", lambda: None)
    monkeypatch.setattr(sys, "argv", ["frontend"])
    before = sys.getswitchinterval()
    try:
        with pytest.raises(SystemExit, match="not supported"):
            main.main()
        assert sys.getswitchinterval() == pytest.approx(main.SWITCH_INTERVAL_S)
    finally:
        sys.setswitchinterval(before)
