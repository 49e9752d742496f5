"""transformers' own parser of a checkpoint's description, where no table holds it."""

from __future__ import annotations

import itertools
import json
import signal
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from backedge.base.errors import SetupError
from backedge.parsers.api import stream_parser
from backedge.parsers.base import ParserNames, ParserRequest, StreamParser
from backedge.parsers.events import join
from backedge.parsers.parser_lookup import uses_native
from backedge.parsers.passthrough import PassthroughParser
from backedge.parsers.response_template import describes, name_description, refuse_described
from backedge.worker.engine_worker import choose_parsers
from backedge.worker.flags import WorkerSettings
from hypothesis import given
from hypothesis import strategies as st

from tests.parsers.event_outcome import join_outcome
from tests.parsers.families.family import function
from tests.parsers.made_up import CALL, ENDLESS_NAME, MADE_UP, STUCK, TOOL
from tests.parsers.test_response_template import (
    SESSIONS,
    compile_all,
    read_expected,
    read_lines,
)

described = pytest.importorskip("backedge.engines.transformers.parsers")
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
    description: object = DESCRIPTION, prompt: str = "", tools: Sequence[Any] = (TOOL,)
) -> StreamParser:
    name = name_description(description)
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


def test_outside_the_main_thread_and_in_frontends_it_is_refused() -> None:
    with ThreadPoolExecutor() as threads, pytest.raises(SetupError, match="needs the main thread"):
        threads.submit(outside_a_pool).result()
    with pytest.raises(SetupError, match="stop all streams of a frontend"):
        refuse_described(ParserNames(NAME))


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


# Where ours differs from what the installed transformers returns for the same pieces: it is right.
DIFFERENT = {
    "synthetic/zero-width-open#basic": "all texts of a field are kept, not the last alone",
}
# Where the installed transformers differs from the newer one of the recordings, which is right: it
# reads a parameter as the union of its schema.
NEWER = {
    "synthetic/merge-duplicates#union-one-of",
    "synthetic/merge-duplicates#union-one-of-null",
    "synthetic/merge-duplicates#union-dup-array",
}


def parse_with_transformers(description: object, row: Any, tools: Any, size: int) -> Any:
    text = row["text"]
    parser = described.ResponseParser(description, prefix=row["prefix"] or "", tools=tools)
    for at in range(0, len(text), size):
        parser.feed(text[at : at + size])
    return read_expected(parser.finalize()[0])


@pytest.mark.skipif(not SESSIONS.is_dir(), reason="there are no sessions beside the checkout")
def test_sessions_of_transformers() -> None:
    _, refused = compile_all()
    rows = {row["id"]: row["template"] for row in read_lines("templates")}
    known_tools = json.loads((SESSIONS / "tools.json").read_text())
    native = {
        id_
        for id_ in refused
        for name in [name_description(rows[id_])]
        if describes(name, "--tool-call-parser") or describes(name, "--reasoning-parser")
    }
    assert (len(native), len(refused) - len(native)) == (107, 186)
    compared, different, newer = 0, set(), set()
    for row in read_lines("sessions"):
        kind, *recorded = row["unary"].get("final", [""])
        # A text that the prompt begins was sent with the prompt.
        if row["template"] not in native or kind != "final" or "#tail" in row["id"]:
            continue
        tools = [
            tool if "function" in tool else {"function": tool}
            for tool in known_tools.get(row.get("tools"), ())
        ]
        for size in (1, 3, 7, len(row["text"]) + 1):
            try:
                expected = parse_with_transformers(rows[row["template"]], row, tools, size)
            except (KeyError, TypeError, AttributeError):
                continue  # its calls have another form than OpenAI's
            compared += 1
            names = {tool["function"]["name"] for tool in tools}
            more = [function(name) for name, _ in expected[2] if name not in names]
            parser = build(rows[row["template"]], row["prefix"] or "", [*tools, *more] or [TOOL])
            text = row["text"]
            pieces = [text[at : at + size] for at in range(0, len(text), size)]
            found = read(parser, pieces)
            calls = [(call.name, call.arguments) for call in found.calls]
            if ((found.reasoning or "").strip(), (found.content or "").strip(), calls) != expected:
                different.add(row["id"])
            if size > len(text) and expected != read_expected(recorded[0]):
                newer.add(row["id"])
    assert different == DIFFERENT.keys()
    assert newer == NEWER
    assert compared == 324
