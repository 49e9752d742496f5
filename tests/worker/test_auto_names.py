"""`auto` among a worker's flags, for each engine."""

from __future__ import annotations

from argparse import Namespace
from typing import get_args

import pytest
from backedge.parsers import api
from backedge.parsers.api import Engine
from backedge.parsers.base import ParserNames
from backedge.parsers.response_template import name_native, wants_native
from backedge.templates.auto_parsers import read_description
from backedge.testing.replay_worker.flags import build_flag_parser, find_parsers
from backedge.worker.engine_worker import find_names
from backedge.worker.flags import (
    ENGINE_CHOICES,
    MODEL_FLAGS,
    EngineChoices,
    resolve_auto_names,
)

from tests.parsers.chat_templates import build_template
from tests.parsers.made_up import write_model as write_described
from tests.support import TINY_MODEL

ENGINES = get_args(Engine)


def flags(engine, **more):
    switch = {f"{engine}_processing": True, MODEL_FLAGS[engine][-1]: str(TINY_MODEL)}
    names = {"tool_call_parser": "auto", "reasoning_parser": "auto"}
    return Namespace(**{**switch, **names, "postprocess_parsers": "auto", **more})


@pytest.mark.parametrize("engine", ENGINES)
def test_names_take_the_place_of_auto(engine):
    arguments = flags(engine)
    resolve_auto_names(arguments, engine)
    assert (arguments.tool_call_parser, arguments.reasoning_parser) == ("hermes", "qwen3")


@pytest.mark.parametrize("engine", ENGINES)
def test_nothing_changes_without_post_processing_or_auto(engine, tmp_path):
    plain = flags(engine, **{f"{engine}_processing": False})
    named = flags(engine, tool_call_parser="xlam", reasoning_parser=None)
    for arguments in (plain, named):
        setattr(arguments, MODEL_FLAGS[engine][0], str(tmp_path))
        before = Namespace(**vars(arguments))
        resolve_auto_names(arguments, engine)
        assert arguments == before


def test_the_tokenizers_folder_comes_before_the_models(tmp_path):
    arguments = flags("vllm", model=str(tmp_path), tokenizer=str(TINY_MODEL))
    resolve_auto_names(arguments, "vllm")
    assert arguments.tool_call_parser == "hermes"


@pytest.mark.parametrize("flag", ["chat_template", "custom_jinja_template", None])
def test_a_template_of_the_flags_counts(flag, tmp_path):
    template = tmp_path / "own.jinja"
    template.write_text(build_template("qwen3_coder"))
    arguments = flags("sglang", reasoning_parser=None, chat_template="one-of-sglang's")
    if flag:
        setattr(arguments, flag, str(template))
    resolve_auto_names(arguments, "sglang", chat_template=None if flag else str(template))
    assert arguments.tool_call_parser == "qwen3_coder"


def test_native_parsers_take_a_description_as_transformers_reads_it(tmp_path):
    model = write_described(tmp_path / "model")
    arguments = flags("vllm", model=str(model), postprocess_parsers="native")
    resolve_auto_names(arguments, "vllm")
    names = ParserNames(arguments.tool_call_parser, arguments.reasoning_parser)
    assert wants_native(names)
    resolve_auto_names(arguments := flags("vllm", model=str(model)), "vllm")
    own = arguments.tool_call_parser
    assert (own, own) == (arguments.reasoning_parser, read_description(model))
    assert names.tool_call == name_native(own)


def test_the_engines_name_is_taken():
    own = {"tool_call_parser": EngineChoices(None, ("qwen25",))}
    arguments = flags("sglang", reasoning_parser=None, **{ENGINE_CHOICES: own})
    resolve_auto_names(arguments, "sglang")
    assert arguments.tool_call_parser == "qwen25"


@pytest.mark.parametrize("kind", ["linear", "auto", "native"])
def test_an_engine_without_parsers_of_its_own_takes_those_of_an_installed_one(
    kind, monkeypatch, tmp_path
):
    template = tmp_path / "llama.jinja"
    template.write_text(build_template("llama3_json"))
    monkeypatch.setattr(api, "list_installed", lambda: ["sglang"])
    found = find_names(ParserNames("auto"), str(TINY_MODEL), kind, chat_template=str(template))
    assert found.tool_call == ("llama3" if kind == "native" else "llama3_json")


@pytest.mark.parametrize("name", ["auto", "template"])
def test_a_replay_worker_takes_a_description_as_transformers_reads_it(name, tmp_path):
    model = write_described(tmp_path / "model")
    words = ["--model", str(model), "--tool-call-parser", name, "--postprocess-parsers"]
    native, linear = (
        find_parsers(build_flag_parser().parse_args([*words, kind]))
        for kind in ("native", "linear")
    )
    own = read_description(model)
    assert own is not None
    assert (native.tool_call, linear.tool_call) == (name_native(own), own)
