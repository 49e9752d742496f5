"""The parsers of a model: of the frontend's flags, of the card, of a worker that post-processes."""

import argparse
import contextlib
from types import SimpleNamespace

import msgspec
import pytest
from backedge.base.errors import SetupError, UnknownParserError
from backedge.engines.dynamo.types import RuntimeConfig
from backedge.frontend import parser_selection
from backedge.frontend.parser_selection import (
    FrontendParsers,
    find_described,
    read_configured_parsers,
    read_worker_card,
    select_parsers,
)
from backedge.parsers.base import ParserNames
from backedge.parsers.response_template import name_description
from backedge.postprocess.messages import KEY, WorkerCard, encode


def flags(tool_call=None, reasoning=None):
    return argparse.Namespace(tool_call_parser=tool_call, reasoning_parser=reasoning)


CAPABILITY = WorkerCard(
    engine="vllm", engine_version="1", tool_call_parser="hermes", reasoning_parser="of_tomorrow"
)
# flags, card, parsers
NAMES = [
    (flags("hermes", "qwen3"), {}, FrontendParsers(ParserNames("hermes", "qwen3"))),
    (flags(), {"tool_call_parser": "hermes"}, FrontendParsers(ParserNames("hermes"))),
    (
        flags("qwen3_coder"),
        {"tool_call_parser": "hermes"},
        FrontendParsers(ParserNames("qwen3_coder")),
    ),
    (
        flags("qwen3_coder"),
        {"runtime_data": {KEY: encode(CAPABILITY)}},
        FrontendParsers(ParserNames("hermes")),
    ),
    (
        flags("hermes"),
        {"runtime_data": {KEY: "no message"}},
        FrontendParsers(ParserNames("hermes")),
    ),
]


def configure(given, card):
    config = msgspec.convert(card, RuntimeConfig)
    return read_configured_parsers(given, config, read_worker_card(config))


@pytest.mark.parametrize(("given", "card", "names"), NAMES)
def test_the_parsers_of_a_model(given, card, names):
    assert select_parsers(configure(given, card)) == names


def test_a_name_that_no_linear_parser_has_is_refused():
    with pytest.raises(UnknownParserError, match="hermes"):
        select_parsers(configure(flags("nonsense"), {}))


def check_native(names, also_known):
    if names.tool_call not in (None, "hermes", "of_its_own"):
        raise UnknownParserError("--tool-call-parser", names.tool_call, also_known)


@pytest.fixture
def vllm(monkeypatch):
    """An engine's own parsers are installed."""
    known = {"--tool-call-parser": ["hermes", "of_its_own"]}
    module = SimpleNamespace(
        check_names=check_native,
        known_names=lambda flag: known.get(flag, ["qwen3", "of_tomorrow"]),
    )
    monkeypatch.setattr(parser_selection, "load_native_parsers", lambda engine: module)


OF_A_WORKER = {"runtime_data": {KEY: encode(CAPABILITY)}}
# flags, card, kind, parsers
WITH_AN_ENGINE = [
    (flags("hermes", "qwen3"), {}, "auto", FrontendParsers(ParserNames("hermes", "qwen3"))),
    (
        flags("hermes", "qwen3"),
        {},
        "native",
        FrontendParsers(ParserNames("hermes", "qwen3"), native=True),
    ),
    (flags("of_its_own"), {}, "auto", FrontendParsers(ParserNames("of_its_own"), native=True)),
    (
        flags(),
        OF_A_WORKER,
        "auto",
        FrontendParsers(ParserNames("hermes", "of_tomorrow"), native=True),
    ),
    (
        flags(),
        OF_A_WORKER,
        "linear",
        FrontendParsers(ParserNames("hermes", "of_tomorrow"), native=True),
    ),
]


@pytest.mark.usefixtures("vllm")
@pytest.mark.parametrize(("given", "card", "kind", "names"), WITH_AN_ENGINE)
def test_the_parsers_of_a_model_where_an_engines_are_there(given, card, kind, names):
    assert select_parsers(configure(given, card), kind, "vllm") == names


@pytest.mark.usefixtures("vllm")
def test_a_name_that_nobody_has_is_refused_with_ours_among_the_known():
    with pytest.raises(UnknownParserError, match="qwen3_coder"):
        select_parsers(configure(flags("nonsense"), {}), "auto", "vllm")


def native(known: str) -> SimpleNamespace:
    """Stand in for an engine's parsers, which have only the names `known`."""

    def check(names: ParserNames, _: object) -> None:
        if names.tool_call not in known.split():
            raise UnknownParserError("--tool-call-parser", str(names.tool_call), known.split())

    return SimpleNamespace(check_names=check)


# by engine: its names, "absent" where it is not installed; the name, part of the message
CHECKED = [
    ({}, "hermes", ""),
    ({}, "hemes", "did you mean hermes"),
    ({"vllm": "its_own"}, "its_own", ""),
    ({"vllm": "its_own", "sglang": "another"}, "another", ""),
    ({"vllm": "absent", "sglang": "another"}, "another", ""),
    ({"vllm": "absent", "sglang": "absent"}, "hemes", "did you mean hermes"),
    ({"vllm": "its_own"}, "its_won", "did you mean its_own"),
    ({"vllm": "its_own"}, "auto", ""),
]


@pytest.mark.parametrize(("engines", "name", "message"), CHECKED)
def test_names_are_checked_before_the_first_model(monkeypatch, engines, name, message):
    def load(engine: str) -> SimpleNamespace:
        if engines[engine] == "absent":
            raise ImportError(engine)
        return native(engines[engine])

    monkeypatch.setattr(parser_selection, "load_native_parsers", load)
    expected = pytest.raises(SetupError, match=message) if message else contextlib.nullcontext()
    with expected:
        parser_selection.check_names(ParserNames(name), list(engines))


@pytest.mark.parametrize("name", ["auto", "template"])
def test_what_is_in_a_models_files_is_known_with_the_model(name: str) -> None:
    parser_selection.check_names(ParserNames(name, name), [])
    with pytest.raises(UnknownParserError):
        parser_selection.check_names(ParserNames(name, "nope"), [])


DESCRIBED = name_description({"fields": {"thinking": {"open_pattern": r"<\w+>", "close": "<end>"}}})


@pytest.mark.usefixtures("vllm")
@pytest.mark.parametrize("engine", [None, "vllm"])
def test_a_description_without_a_table_is_read_in_a_pool(engine):
    configured = configure(flags(None, DESCRIBED), {})
    assert find_described(configured, "auto") == DESCRIBED
    assert select_parsers(configured, "auto", engine) == FrontendParsers(ParserNames())
    with pytest.raises(SetupError, match="'thinking'"):
        find_described(configured, "linear")
