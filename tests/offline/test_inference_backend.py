"""Names of options are checked, and every back end says what it can do."""

import dataclasses
from pathlib import Path

import pytest
from backedge.base.engines import has_engine
from backedge.base.errors import SetupError
from backedge.offline import ModelLoadConfig
from backedge.offline.contracts import UnknownOptionError, check_names
from backedge.offline.inference_backend import (
    CAPABILITIES,
    ENGINES,
    LOGPROBS,
    REPLAY,
    able_backends,
    backend_class,
    loads,
)
from backedge.parsers.base import ParserNames, ParserRequest
from backedge.parsers.events import join
from backedge.testing.offline import ReplayBackend
from transformers import AutoTokenizer

from tests.parsers.event_outcome import join_outcome
from tests.parsers.made_up import ENDLESS_NAME as NATIVE_NAME
from tests.parsers.made_up import TALK, TOOL
from tests.support import TINY_MODEL

PLUGIN = Path(__file__).parent.parent / "e2e/explosive_parser.py"

NAMES = [name for name, (folder, _) in ENGINES.items() if has_engine(folder)]


@pytest.mark.parametrize("name", [*NAMES, REPLAY[0]])
def test_a_back_end_has_its_name_and_known_capabilities(name):
    found = backend_class(name)
    assert found.name == name
    assert found.capabilities <= set(CAPABILITIES)


def test_who_is_able():
    assert "replay" in able_backends(LOGPROBS)
    assert able_backends("flying") == []


def test_names_are_checked():
    check_names("it", {"a": 1}, ["a", "b"])
    with pytest.raises(UnknownOptionError, match="it has no option 'c'; known: a, b"):
        check_names("it", {"c": 1}, ["a", "b"])


class OfItsOwnError(Exception):
    """As vLLM's errors are, which are neither ValueErrors nor RuntimeErrors."""


@pytest.mark.parametrize("error", [ValueError, OSError, MemoryError, OfItsOwnError])
def test_weights_that_an_engine_refuses(error):
    with pytest.raises(SetupError, match=r"vLLM cannot load 'm' .*no room"), loads("vLLM", "m"):
        raise error("no room")


def test_a_plugin_registers_parsers():
    pytest.importorskip("vllm")
    names = ParserNames(tool_call="explosive")
    config = ModelLoadConfig(TINY_MODEL, backend="replay")
    tokenizer = AutoTokenizer.from_pretrained(TINY_MODEL)
    for plugin, error in (
        (None, "explosive"),
        ("no_such.py", r"--tool-parser-plugin 'no_such.py'"),
    ):
        backend = ReplayBackend(dataclasses.replace(config, tool_parser_plugin=plugin))
        with pytest.raises(SetupError, match=error):
            backend.build_parsers(names, tokenizer)
    backend = ReplayBackend(dataclasses.replace(config, tool_parser_plugin=str(PLUGIN)))
    assert backend.build_parsers(names, tokenizer) is not None


@pytest.mark.parametrize("name", [*NAMES, REPLAY[0]])
def test_a_description_that_no_table_holds_is_read_in_every_back_end(name):
    names = ParserNames(NATIVE_NAME, NATIVE_NAME)
    backend = backend_class(name)(ModelLoadConfig(TINY_MODEL, backend=name))
    parsers = backend.build_parsers(names, AutoTokenizer.from_pretrained(TINY_MODEL))
    assert parsers.name == "template+template"
    parser = parsers(ParserRequest(tools=[TOOL], tool_choice="auto"), [])
    events = join([event for char in TALK for event in parser.feed(char, [0])] + parser.finish())
    assert join_outcome(events).reasoning == "Which zone?"
