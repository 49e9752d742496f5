"""The parsers of a model: of the frontend's flags, of the card, of a worker that post-processes."""

import argparse

import msgspec
import pytest
from backedge.base.errors import UnknownParserError
from backedge.engines.dynamo.types import RuntimeConfig
from backedge.frontend.parser_names import (
    FrontendParsers,
    InstalledParsers,
    read_configured_parsers,
    read_worker_card,
    select_parsers,
)
from backedge.parsers.base import ParserNames
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


INSTALLED = InstalledParsers(
    check_native, lambda: ["hermes", "of_its_own"], lambda: ["qwen3", "of_tomorrow"]
)
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


@pytest.mark.parametrize(("given", "card", "kind", "names"), WITH_AN_ENGINE)
def test_the_parsers_of_a_model_where_an_engines_are_there(given, card, kind, names):
    assert select_parsers(configure(given, card), kind, INSTALLED) == names


def test_a_name_that_nobody_has_is_refused_with_ours_among_the_known():
    with pytest.raises(UnknownParserError, match="qwen3_coder"):
        select_parsers(configure(flags("nonsense"), {}), "auto", INSTALLED)
