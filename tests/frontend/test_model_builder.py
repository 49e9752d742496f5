"""The settings that every tokenizer back end has of its model."""

import argparse
from types import SimpleNamespace
from typing import Any

import pytest
from backedge.base.errors import SetupError, UnknownParserError
from backedge.frontend import parser_selection
from backedge.frontend.chat_model import Deployment
from backedge.frontend.model_builder import ChatModelBuilder
from backedge.frontend.prompt_queue import PromptQueue
from backedge.parsers.base import ParserNames
from backedge.postprocess.messages import WorkerCard
from backedge.tokenization.tokenizer_selection import TokenizerSelection

from tests.frontend.doubles import Card, Instance
from tests.parsers.chat_templates import build_template


class Config:
    preprocess_workers = 0
    exclude_tools_when_tool_choice_none = True
    migration_limit = 0
    trust_remote_code = False
    kv_cache_block_size = None
    http_host = "127.0.0.1"
    http_port = 0
    interactive = False
    discovery_backend = "file"


class Builder(ChatModelBuilder):
    """Builds nothing."""

    async def build(self):
        raise NotImplementedError


class SglangBuilder(Builder):
    """Has SGLang's parsers."""

    native = "sglang"


def builder(worker_card=None, registered=None, kind=Builder, **flags):
    unset = dict.fromkeys(("tool_call_parser", "reasoning_parser", "chat_template"))
    given = argparse.Namespace(**{**unset, **flags})
    queue, selection = PromptQueue(threads=1), TokenizerSelection()
    engine: Any = None  # nothing is sent
    deployment = Deployment(Instance(), Card(registered), engine, Config(), given)
    return kind(deployment, queue, selection, worker_card)


def test_workers_say_their_engine_and_context():
    assert builder().engine_name("vllm") == "vllm"
    assert builder(WorkerCard(engine="sglang", engine_version="1")).engine_name("vllm") == "sglang"
    assert builder(registered={"context_length": 7}).context_length == 7
    assert builder().context_length is None


# flags, an engine's parsers are installed, parsers are native
KINDS = [
    ({"tool_call_parser": "hermes"}, False, False),
    ({"tool_call_parser": "hermes"}, True, False),
    ({"tool_call_parser": "of_its_own"}, True, True),
    ({"tool_call_parser": "hermes", "postprocess_parsers": "native"}, True, True),
    ({"tool_call_parser": "hermes", "postprocess_parsers": "native"}, False, False),
]


@pytest.mark.parametrize(("flags", "installed", "native"), KINDS)
def test_the_flag_chooses_between_linear_parsers_and_an_engines(
    monkeypatch, flags, installed, native
):
    here = SimpleNamespace(check_names=lambda names, known: None)
    monkeypatch.setattr(parser_selection, "load_native_parsers", lambda engine: here)
    built = builder(**flags)
    monkeypatch.setattr(built, "native", "vllm" if installed else None)
    parsers = built.usable_parsers()
    assert parsers.names == ParserNames(flags["tool_call_parser"])
    assert parsers.native is native


PARSERS = {"tool_call_parser": "hermes", "reasoning_parser": "qwen3"}
# worker's card, the frontend's flags, the registered names, what the warning names
UNREAD = [
    (None, {}, {}, ["reasoning (--reasoning-parser qwen3)", "tool calls (--tool-call-parser"]),
    (None, {"reasoning_parser": "qwen3"}, {}, ["the model's tool calls (--tool-call-parser"]),
    (None, {"tool_call_parser": "hermes"}, {}, ["the model's reasoning (--reasoning-parser"]),
    (None, PARSERS, {}, []),
    (None, {}, PARSERS, []),
    (WorkerCard(engine="vllm", engine_version="1"), {}, {}, []),
]


@pytest.mark.parametrize(("card", "flags", "registered", "parts"), UNREAD)
def test_what_no_parser_reads_is_one_warning(card, flags, registered, parts, caplog):
    built = builder(card, registered, **flags)
    with caplog.at_level("INFO"):
        built.log_model("rendered", built.configured.names)
    first, *warnings = caplog.messages
    where = "in its workers" if card else "here"
    assert first.startswith(f"model tiny: rendered, post-processed {where}, parsers ")
    assert len(warnings) == bool(parts)
    assert all(part in warnings[0] for part in parts)


def test_a_parser_of_dynamos_beside_the_workers_own_is_one_warning(caplog):
    for card, warnings in ((WorkerCard(engine="vllm", engine_version="1"), 1), (None, 0)):
        caplog.clear()
        built = builder(card, PARSERS)
        built.log_model("rendered", built.configured.names)
        found = [one.getMessage() for one in caplog.records if one.levelname == "WARNING"]
        assert len(found) == warnings
        assert all("hermes reads answers without a stream" in one for one in found)


def test_a_name_that_only_an_engine_has_is_refused_without_it():
    with pytest.raises(UnknownParserError, match="hermes"):
        builder(tool_call_parser="of_its_own").usable_parsers()


AUTO = {"tool_call_parser": "auto", "reasoning_parser": "auto"}
NAMES = {"tool_call": "hermes", "reasoning": "qwen3"}


@pytest.mark.parametrize(("flags", "registered"), [(AUTO, {}), ({}, AUTO)])
def test_auto_is_found_in_the_model_of_plain_workers(flags, registered):
    """SGLang has an `auto` of its own, which its worker registers."""
    assert builder(registered=registered, **flags).configured.names == ParserNames(
        "hermes", "qwen3"
    )


@pytest.mark.parametrize(
    ("builder_class", "kind", "name"),
    [
        (Builder, "auto", "llama3_json"),
        (SglangBuilder, "auto", "llama3_json"),
        (SglangBuilder, "linear", "llama3_json"),
        (SglangBuilder, "native", "llama3"),
    ],
)
def test_auto_follows_the_frontends_template_and_engine(builder_class, kind, name, tmp_path):
    template = tmp_path / "llama.jinja"
    template.write_text(build_template("llama3_json"))
    flags = {"chat_template": str(template), "postprocess_parsers": kind}
    found = builder(kind=builder_class, tool_call_parser="auto", **flags).configured
    assert found.names == ParserNames(name)


def test_a_template_of_the_engine_is_not_looked_for_in_the_folder():
    found = builder(tool_call_parser="auto", chat_template="one_of_vllms").configured
    assert found.names == ParserNames("hermes")


@pytest.mark.parametrize("flag", ["tool_call_parser", "reasoning_parser"])
def test_a_model_for_which_auto_finds_nothing_is_served_with_a_warning(flag, tmp_path, caplog):
    template = tmp_path / "plain.jinja"
    template.write_text("{{ messages }}")
    flags = {**PARSERS, flag: "auto", "chat_template": str(template)}
    expected = ParserNames(**{**NAMES, flag.removesuffix("_parser"): None})
    assert builder(**flags).configured.names == expected
    [warning] = [one for one in caplog.messages if "Until then clients get" in one]
    assert f"--{flag.replace('_', '-')} auto finds no parser for" in warning


@pytest.mark.parametrize("flag", ["tool_call_parser", "reasoning_parser"])
def test_a_model_without_the_description_that_is_asked_for_is_refused(flag):
    with pytest.raises(SetupError, match="has no `response_template`"):
        builder(**{flag: "template"})
