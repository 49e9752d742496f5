from __future__ import annotations

from collections.abc import Sequence

import pytest
from backedge.base.errors import TOOL_CALL_FLAG, SetupError, UnknownParserError, UnusableParserError
from backedge.parsers.base import ParserNames
from backedge.parsers.events import Event
from backedge.parsers.native.startup_checks import (
    PROBE_TEXT,
    check_registered,
    raise_unusable,
    try_parser,
)
from backedge.parsers.passthrough import PassthroughParser

from benchmarks.samples.tokenizers import bpe


@pytest.mark.parametrize("name", [None, "", "hermes"])
def test_a_registered_name_or_none_is_accepted(name: str | None):
    check_registered(lambda _: ["hermes"], ParserNames(tool_call=name))


def test_an_unknown_name_is_refused_with_all_known_ones():
    names = ParserNames("nope")
    with pytest.raises(UnknownParserError, match=r"'nope' is not known; .*: glm45, hermes, ours"):
        check_registered(lambda _: ["hermes", "glm45"], names, ["ours"])


def fail(error: Exception | None) -> None:
    with raise_unusable("vLLM", TOOL_CALL_FLAG, "p", {"broken": "it is broken."}):
        if error is not None:
            raise error


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (NotImplementedError(), "vLLM's parser of that name only finds where reasoning ends"),
        (ValueError("no <x>"), r"with this model's tokenizer \(ValueError: no <x>\)\. Choose the"),
    ],
)
def test_what_a_parser_raises_makes_it_unusable(error: Exception, message: str):
    with pytest.raises(UnusableParserError, match=message) as raised:
        fail(error)
    assert raised.value.__cause__ is error


def test_an_error_of_ours_stays_what_it_is():
    error = SetupError("no engine")
    with pytest.raises(SetupError) as raised:
        fail(error)
    assert raised.value is error


def test_a_parser_known_to_be_unusable_is_not_tried():
    tried = []
    with (
        pytest.raises(UnusableParserError, match=r"'broken' cannot be used: it is broken\."),
        raise_unusable("vLLM", TOOL_CALL_FLAG, "broken", {"broken": "it is broken."}),
    ):
        tried.append("broken")
    assert tried == []


def test_a_parser_that_works_passes():
    fail(None)


class Recorder(PassthroughParser):
    def __init__(self) -> None:
        super().__init__()
        self.fed: list[tuple[str, list[int]]] = []
        self.finished: list[tuple[str, list[int]]] = []

    def feed(self, text: str, token_ids: Sequence[int] = ()) -> list[Event]:
        self.fed.append((text, list(token_ids)))
        return super().feed(text, token_ids)

    def finish(
        self, text: str = "", token_ids: Sequence[int] = (), *, cut: bool = False
    ) -> list[Event]:
        self.finished.append((text, list(token_ids)))
        return []


def test_a_parser_is_tried_token_by_token():
    parser, tokenizer = Recorder(), bpe()
    try_parser(parser, tokenizer)
    pieces = parser.fed + parser.finished
    assert (len(parser.fed) > 0, len(parser.finished)) == (True, 1)
    assert "".join(text for text, _ in pieces) == PROBE_TEXT
    assert [token for _, tokens in pieces for token in tokens] == tokenizer.encode(
        PROBE_TEXT, add_special_tokens=False
    )
