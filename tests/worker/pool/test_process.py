"""One process of the pool, without its loop: messages in, answers out."""

import re
import time
from typing import Any, cast

import msgspec
import pytest
from backedge.parsers.base import StreamParser
from backedge.parsers.events import Content, Reasoning
from backedge.parsers.passthrough import PassthroughParser, PassthroughParsers
from backedge.postprocess import Chunk
from backedge.postprocess.messages import encode as encode_params
from backedge.postprocess.settings import MERGE_DELAYS, PostprocessSettings
from backedge.worker.pool import messages
from backedge.worker.pool.current_step import StepMonitor
from backedge.worker.pool.process import MS_PER_S, PoolProcess
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support import encode, params, tiny_detokenizers
from tests.worker.scripted import BrokenParser

TEXT = encode("one, two, three, four")


class WordParser(StreamParser):
    """Holds back the last word until it has ended; what a comma ends is reasoning."""

    token_aligned, in_reasoning, reasoning_tokens, held = True, False, 0, None

    def __init__(self):
        self.word = ""

    def reads_together(self, token_ids):
        return len(token_ids) == 1

    def feed(self, text, token_ids=()):
        *words, self.word = re.split("(?<= )", self.word + text)
        return [(Reasoning if "," in word else Content)(word) for word in words]

    def finish(self, text="", token_ids=(), *, cut=False):
        return [*self.feed(text, token_ids), Content(self.word)]


class Parsers(PassthroughParsers):
    """Makes a parser that fails after three tokens for the prompt [0], none for [1].

    The prompt [2] has one that holds back text.
    """

    name = "broken"

    def shows_special_tokens(self, request):
        return True

    def __call__(self, request, prompt_token_ids):
        if list(prompt_token_ids) == UNBUILDABLE:
            raise KeyError("boom")
        built = {0: BrokenParser, 2: WordParser}
        return built.get(sum(prompt_token_ids) if prompt_token_ids else -1, PassthroughParser)()


# A process that waits longer is idle.
IDLE_MS = 250
BROKEN: list[int] = [0]
UNBUILDABLE: list[int] = [1]
HOLDING: list[int] = [2]
FINE: list[int] = []


class IdleError(Exception):
    """The process has nothing left to do."""


class Socket:
    """The process's socket: gives it `requests`, and keeps what it answers."""

    def __init__(self):
        self.requests = []
        self.answers = []

    def poll(self, timeout_ms):
        if not self.requests and (timeout_ms is None or timeout_ms >= IDLE_MS):
            raise IdleError
        time.sleep(0 if self.requests else timeout_ms / MS_PER_S)
        return bool(self.requests)

    def recv(self):
        requests, self.requests = self.requests, []
        return messages.encode(requests)

    def send(self, message):
        self.answers += messages.decode_answers(message)


class Process:
    """A process that runs until it is idle."""

    def __init__(self, folder, on_error):
        self.socket = cast("Any", Socket())
        settings = PostprocessSettings(
            delays=MERGE_DELAYS["lowest"], on_error=on_error, memory_mb=0
        )
        monitor = StepMonitor(folder / "step")
        self.process = PoolProcess(tiny_detokenizers(), Parsers(), settings, monitor, self.socket)

    def run(self, *requests):
        """Return the answers to `requests`, less Ready and Progress."""
        self.socket.requests += requests
        with pytest.raises(IdleError):
            self.process.run()
        told, self.socket.answers = self.socket.answers, []
        kinds = messages.Result, messages.Failure
        return [answer for answer in told if isinstance(answer, kinds)]


@pytest.fixture
def process(tmp_path):
    """Return a function that makes the process."""
    return lambda on_error="fail": Process(tmp_path, on_error)


def open_request(key, prompt, *, processed=0, seen=0, parsed=None, n=1, **fields):
    request = encode_params(params(prompt_length=len(prompt), n=n, **fields))
    by_choice = [seen] * n
    return messages.OpenRequest(
        key, request, list(prompt), processed, by_choice, by_choice, parsed, measure=False
    )


def feeds(key, count=None, tokens=TEXT):
    return [
        messages.Feed(key, Chunk(token_ids=[token_id]), 0.0, 0.0) for token_id in tokens[:count]
    ]


def text(told, key, index=0):
    return "".join(
        (delta.delta.reasoning_content or "") + (delta.delta.content or "")
        for answer in told
        if isinstance(answer, messages.Result) and answer.key == key
        if answer.scheduled.index == index
        for delta in answer.scheduled.deltas
    )


def failures(told):
    return [answer for answer in told if isinstance(answer, messages.Failure)]


def test_requests_are_processed_side_by_side(process):
    requests = [step for pair in zip(feeds(1), feeds(2), strict=True) for step in pair]
    told = process().run(open_request(1, FINE), open_request(2, FINE), *requests)
    assert text(told, 1) == text(told, 2) == "one, two, three, four"
    assert failures(told) == []


def test_a_failure_that_degrades_is_told_once_and_the_text_goes_on(process):
    told = process("degrade").run(open_request(1, BROKEN), *feeds(1))
    assert text(told, 1) == "one, two, three, four"
    assert [(failure.fatal, failure.key) for failure in failures(told)] == [(False, 1)]


def test_a_failure_that_another_process_has_told_of_is_not_told_again(process):
    again = open_request(1, BROKEN, processed=len(TEXT))
    told = process("degrade").run(again, *feeds(1))
    assert failures(told) == []


# A request that fails again in a new process, where it is known already up to `processed`.
FATAL = [(BROKEN, 0), (BROKEN, 10), (UNBUILDABLE, 0), (UNBUILDABLE, 10)]


@pytest.mark.parametrize(("prompt", "processed"), FATAL)
def test_a_fatal_failure_is_told_once_and_costs_no_other_request_an_answer(
    prompt, processed, process
):
    """The last answer was once taken for the failure, whosever it was."""
    served = process("fail")
    other = [open_request(2, FINE), *feeds(2, 1)]
    told = served.run(*other, open_request(1, prompt, processed=processed), *feeds(1))
    assert text(told, 2) == "on"
    assert [(failure.key, failure.fatal) for failure in failures(told)] == [(1, True)]
    assert [answer for answer in told if answer.key == 1][-1] == failures(told)[0]
    assert served.run(*feeds(1)) == [], "it is forgotten"


def test_a_request_that_fails_while_it_catches_up_repeats_nothing(process):
    told = process("fail").run(open_request(1, BROKEN, processed=8, seen=8), *feeds(1))
    assert text(told, 1) == ""
    assert len(failures(told)) == 1


@pytest.mark.parametrize("seen", range(len(TEXT) + 1))
def test_a_request_that_moved_gives_only_what_the_client_has_not_seen(seen, process):
    whole = process().run(open_request(1, FINE), *feeds(1))
    results = [answer for answer in whole if isinstance(answer, messages.Result)]
    moved = open_request(1, FINE, processed=seen, seen=seen)
    told = process().run(moved, *feeds(1))
    before = process().run(open_request(1, FINE), *feeds(1, seen))
    assert text(before, 1) + text(told, 1) == text(results, 1)


def test_parsers_are_left_where_the_message_says(process):
    told = process("degrade").run(open_request(1, BROKEN, parsed=2), *feeds(1))
    assert text(told, 1) == "one, two, three, four"
    assert failures(told) == [], "the main process has reported it"


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    choices=st.lists(st.integers(0, 1), max_size=2 * len(TEXT)),
    died_at=st.integers(0, 2 * len(TEXT)),
    streams=st.booleans(),
    repeats=st.booleans(),
)
def test_a_request_that_goes_on_without_a_parser_shows_what_was_held_back(
    choices, died_at, streams, repeats, process
):
    """choices: of which choice each chunk is. repeats: the parser reads all steps again."""
    counts = [0, 0]
    steps = []
    for index in choices:
        chunk = Chunk(index=index, token_ids=TEXT[counts[index] : counts[index] + 1])
        steps.append(messages.Feed(1, chunk, 0.0, 0.0))
        counts[index] += 1
    for index in (0, 1):
        end = Chunk(index=index, token_ids=TEXT[counts[index] :], finish_reason="length")
        steps.append(messages.Feed(1, end, 0.0, 0.0))
    request = open_request(1, HOLDING, n=2, stream=streams)
    before = process().run(request, *steps[:died_at])
    seen, shown, parsed = [0, 0], [0, 0], 0
    for result in before:
        seen[result.scheduled.index] = result.chunks
        if result.scheduled.deltas:
            shown[result.scheduled.index], parsed = result.chunks, result.of_all
    parsed = died_at if repeats else parsed
    restart = msgspec.structs.replace(request, seen=seen, shown=shown, parsed=parsed)
    told = process("degrade").run(restart, *steps)
    for index in (0, 1):
        assert text(before + told, 1, index) == "one, two, three, four"
        sent = [result.scheduled for result in before + told if result.scheduled.index == index]
        assert [token_id for scheduled in sent for token_id in scheduled.token_ids] == TEXT


def test_a_closed_request_is_forgotten(process):
    served = process()
    assert served.run(open_request(1, FINE), *feeds(1), messages.Close(1)) == []
    assert served.run(*feeds(1)) == []
