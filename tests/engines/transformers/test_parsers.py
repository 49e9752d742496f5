"""transformers' own parser of a checkpoint's description, where no table holds it."""

from __future__ import annotations

import functools
import itertools
import signal
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from backedge.base.errors import SetupError
from backedge.parsers.api import stream_parser
from backedge.parsers.base import ParserNames, ParserRequest, StreamParser
from backedge.parsers.events import join
from backedge.parsers.parser_lookup import tool_format, uses_native
from backedge.parsers.passthrough import PassthroughParser
from backedge.parsers.response_template import (
    describes,
    find_table,
    name_description,
    name_native,
    wants_native,
)
from backedge.worker.engine_worker import choose_parsers
from backedge.worker.flags import WorkerSettings
from hypothesis import given
from hypothesis import strategies as st

from tests.parsers.event_outcome import join_outcome
from tests.parsers.families.family import function
from tests.parsers.made_up import CALL, ENDLESS_NAME, MADE_UP, STUCK, TOOL
from tests.parsers.response_sessions import (
    SESSIONS,
    Session,
    Value,
    compare,
    compile_all,
    read_sessions,
    read_streamed,
    read_templates,
    read_value,
)

described = pytest.importorskip("backedge.engines.transformers.parsers")
ResponseParser = described.ResponseParser
NATIVE, ALL = 118, 457  # sessions of descriptions that no table holds, and of all
LINES = {
    "open_pattern": r"<\|act\|>(?P<name>\w+)(?=<)<\|with\|>",
    "close": "<|hush|>",
    "repeats": True,
    "content": "kv-lines",
    "transform": {"type": "function", "function": CALL},
}
DESCRIPTION = {**MADE_UP, "fields": {**MADE_UP["fields"], "tool_calls": LINES}}
NAME = name_description(DESCRIPTION)
ANSWER = (
    "<|muse|> Which zone?<|hush|>\n<|say|>A moment. <|hush|>\n"
    "<|act|>get_time<|with|>zone: Rome\ndays: 3<|hush|> rest"
)


class Characters:
    """A tokenizer whose tokens are characters."""

    @staticmethod
    def decode(token_ids: Sequence[int]) -> str:
        return "".join(map(chr, token_ids))


def build(
    description: object = DESCRIPTION,
    prompt: str = "",
    tools: Sequence[Any] = (TOOL,),
    *,
    native: bool = False,
) -> StreamParser:
    name = name_description(description)
    name = name_native(name) if native else name
    names = ParserNames(
        *(
            name if describes(name, f"--{kind}-parser") else None
            for kind in ("tool-call", "reasoning")
        )
    )
    factory = described.DescribedParsers(Characters(), names)
    request = ParserRequest(tools=list(tools), tool_choice="auto" if tools else "none")
    parser: StreamParser = factory(request, [*map(ord, prompt)])
    return parser


def read(parser: StreamParser, pieces: Sequence[str], *, cut: bool = False) -> Any:
    events = [event for piece in pieces for event in parser.feed(piece, [0])]
    return join_outcome(join([*events, *parser.finish(cut=cut)]))


def test_no_table_holds_it() -> None:
    names = ParserNames(NAME, NAME)
    assert uses_native("auto", names)
    with pytest.raises(SetupError, match="'tool_calls'"):
        uses_native("linear", names)


@given(st.lists(st.integers(0, len(ANSWER)), max_size=12))
def test_a_made_up_format(cuts: list[int]) -> None:
    at = [0, *sorted(cuts), len(ANSWER)]
    parser = build()
    found = read(parser, [ANSWER[begin:end] for begin, end in itertools.pairwise(at)])
    assert (found.reasoning, found.content) == ("Which zone?", "A moment.")
    assert [(call.name, call.arguments) for call in found.calls] == [
        ("get_time", {"zone": "Rome", "days": 3})
    ]


@pytest.mark.parametrize("answer", ['{"a": 1}', '[{"name": "f"}]'])
@pytest.mark.parametrize("thought", ["", "<|muse|>Hm.<|hush|>"])
def test_an_answer_held_to_json_is_content(answer: str, thought: str) -> None:
    for tools in ((), (TOOL,)):
        assert read(build(tools=tools), list(thought + answer)).content == answer


def test_the_prompt_opens_reasoning_whose_tokens_are_counted() -> None:
    parser = build(prompt="<|muse|>old<|bot|><|muse|>")
    assert parser.in_reasoning
    found = read(parser, ["So", " it", "<|hush|>", "<|say|>", "Yes"])
    assert (found.reasoning, found.content) == ("So it", "Yes")
    assert (parser.reasoning_tokens, parser.in_reasoning) == (2, False)


def test_a_cut_call_stays_open_and_an_undeclared_one_is_text() -> None:
    assert read(build(), list(ANSWER[:-12]), cut=True).calls == ()
    found = read(build(tools=[function("other")]), list(ANSWER))
    assert (found.calls, found.content) == ((), "A moment.zone: Rome\ndays: 3")
    assert read(build(tools=()), list(ANSWER)).content == "A moment."


def test_native_values_are_those_of_transformers() -> None:
    """It ends a call that is cut, and types some values otherwise."""
    cut = ANSWER[: ANSWER.index("3<|hush|>")]
    assert [call.arguments for call in read(build(native=True), list(cut), cut=True).calls] == [
        {"zone": "Rome", "days": ""}
    ]
    lines = ANSWER.replace("days: 3", "days: 3.5")
    tool = function("get_time", zone={"type": "string"}, days={"$ref": "#/$defs/days"})
    tool["function"]["parameters"]["$defs"] = {"days": {"type": "number"}}
    values = [read(build(tools=[tool], native=native), list(lines)) for native in (False, True)]
    assert [value.calls[0].arguments["days"] for value in values] == [3.5, "3.5"]


def test_a_name_that_asks_for_native_values() -> None:
    name = name_native(name_description(MADE_UP))
    names = ParserNames(name, name)
    assert uses_native("auto", names)
    assert not uses_native("linear", names)
    assert tool_format(name) == tool_format(name_description(MADE_UP))
    # A checkpoint cannot ask for them.
    assert not wants_native(ParserNames(name_description({**MADE_UP, "native": True})))


@pytest.mark.parametrize("size", [1, 3, 99])
def test_white_space_between_two_texts_is_kept(size: int) -> None:
    answer = "<|say|> A moment. <|hush|><|act|>get_time<|with|>days: 3<|hush|><|say|>More. <|hush|>"
    found = read(build(), [answer[at : at + size] for at in range(0, len(answer), size)])
    assert found.content == "A moment. More."


def test_a_call_that_cannot_be_read_is_text() -> None:
    calls = {**LINES, "content": "json"}
    broken = ANSWER.replace("zone: Rome\ndays: 3", '{"zone" 3')
    parser = build({**MADE_UP, "fields": {**MADE_UP["fields"], "tool_calls": calls}})
    assert read(parser, list(broken)).content == 'A moment.{"zone" 3> rest'


def test_the_workers_own_process_runs_no_expression(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError

    monkeypatch.setattr(described, "ResponseParser", refuse)
    names = ParserNames(NAME, NAME)
    factory = choose_parsers("auto", names, None, refuse)  # type: ignore[arg-type]  # never called
    assert factory.name == "template+template"
    assert factory.shows_special_tokens(ParserRequest())
    assert isinstance(factory(ParserRequest(), []), PassthroughParser)
    assert WorkerSettings(names=names).pool_processes(is_native=True) > 0
    with pytest.raises(SetupError, match="leave out --postprocess-workers 0"):
        WorkerSettings(names=names, workers=0).pool_processes(is_native=True)


def outside_a_pool(name: str = NAME) -> StreamParser:
    return stream_parser(
        tool_call_parser=name, reasoning_parser=name, tools=[TOOL], tokenizer=Characters()
    )


def test_without_a_pool_a_step_has_a_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    before = signal.getsignal(signal.SIGALRM)
    found = read(outside_a_pool(), list(ANSWER))
    assert (found.reasoning, len(found.calls)) == ("Which zone?", 1)
    monkeypatch.setattr(described, "MAX_STEP_S", 0.2)
    parser = outside_a_pool(ENDLESS_NAME)
    with pytest.raises(TimeoutError, match=r"a step took longer than the deadline of 0\.2 s"):
        read(parser, [STUCK, "!"])
    assert signal.getsignal(signal.SIGALRM) is before
    assert signal.getitimer(signal.ITIMER_REAL) == (0, 0)


def test_outside_the_main_thread_it_is_refused() -> None:
    with ThreadPoolExecutor() as threads, pytest.raises(SetupError, match="needs the main thread"):
        threads.submit(outside_a_pool).result()


def test_it_is_the_only_parser() -> None:
    with pytest.raises(SetupError, match="leave one out"):
        choose_parsers(
            "auto",
            ParserNames(NAME, "qwen3"),
            None,
            lambda: None,  # type: ignore[arg-type, return-value]  # never called
        )


def test_what_transformers_refuses_stops_the_start() -> None:
    without_anchor = {name: part for name, part in DESCRIPTION.items() if name != "start_anchor"}
    with pytest.raises(SetupError, match="must define 'start_anchor'"):
        build(without_anchor)


NAMED = ANSWER.replace("<|act|>", "<|act|> f name=")


@given(st.lists(st.integers(0, len(NAMED)), max_size=12))
def test_a_boundary_of_words_is_found_in_each_chunking(cuts: list[int]) -> None:
    lines = {**LINES, "open_pattern": r"<\|act\|>[^<]*?\bname=(?P<name>\w+)(?=<)<\|with\|>"}
    at = [0, *sorted(cuts), len(NAMED)]
    parser = build({**MADE_UP, "fields": {**MADE_UP["fields"], "tool_calls": lines}})
    found = read(parser, [NAMED[begin:end] for begin, end in itertools.pairwise(at)])
    assert [call.name for call in found.calls] == ["get_time"]
    assert (found.reasoning, found.content) == ("Which zone?", "A moment.")


# Where ours differs from transformers' recorded answer, by class; docs/decisions/0030 says why.
DIFFERENT = {
    "texts": "synthetic/zero-width-open#basic",
    "types": "hub/muse-glimmer#types-quoted hub/muse-glimmer#types-edges",
}


# A stream has all texts of a kind, transformers' value the last one.
TEXTS = """
    shapes/literal-anchors-json-tools#call-in-content synthetic/base#two-say
    synthetic/base#two-think synthetic/base#say-tool-say synthetic/zero-width-open#basic
    trl/glm4moe#user-close"""


def parse_session(session: Session, size: int, *, native: bool = False) -> Any:
    text = session.text
    parser = build(session.description, session.prompt, session.tools, native=native)
    return read(parser, [text[at : at + size] for at in range(0, len(text), size)])


@pytest.mark.skipif(not SESSIONS.is_dir(), reason="there are no sessions beside the checkout")
def test_sessions_of_transformers() -> None:
    _, refused = compile_all()
    names = [name_description(read_templates(SESSIONS)[id_]) for id_ in refused]
    native = [
        name
        for name in names
        if describes(name, "--tool-call-parser") or describes(name, "--reasoning-parser")
    ]
    assert (len(native), len(names) - len(native)) == (107, 186)
    sessions = [
        session for session in read_sessions() if isinstance(find_table(session.name), SetupError)
    ]
    compare(sessions, parse_session, {id_ for ids in DIFFERENT.values() for id_ in ids.split()})
    assert len(sessions) == NATIVE


def value_here(session: Session) -> Value:
    """Return what the installed version makes of a session."""
    parser = ResponseParser(session.description, prefix=session.prompt, tools=session.tools)
    events = parser.feed(session.text)
    message, last = parser.finalize()
    # A text that the prompt has begun is whole in the message.
    return read_streamed([("", [*events, *last])]) if session.prompt else read_value(message)


@pytest.mark.skipif(not SESSIONS.is_dir(), reason="there are no sessions beside the checkout")
def test_native_values_of_all_sessions() -> None:
    sessions = [session._replace(expected=value_here(session)) for session in read_sessions()]
    compare(sessions, functools.partial(parse_session, native=True), {*TEXTS.split()})
    assert len(sessions) == ALL
