"""A request, from its prompt to what is routed and what the worker is told."""

import asyncio
import threading

import pytest
from backedge.base.errors import RequestError
from backedge.frontend.containment import PreparationError
from backedge.frontend.prompt_preprocessor import TRUSTED_AFTER, PromptPreprocessor
from backedge.frontend.prompt_queue import BusyError, PromptQueue
from backedge.frontend.request.preprocessed_request import (
    EngineFields,
    Prompt,
    ReasoningParserKwargs,
)

from tests.frontend.chat_requests import FILES, TOOL, chat_request


def prepare(make_prompt, request=None, *, context_length=None, waiting=None):
    queue = PromptQueue(threads=1, waiting=waiting)
    preprocessor = PromptPreprocessor(make_prompt, FILES, queue, context_length)

    async def run():
        async with preprocessor(request or chat_request()) as prepared:
            return prepared

    return asyncio.run(run())


def test_the_prompt_is_made_in_a_thread_and_routed():
    threads = []

    def make_prompt(request):
        threads.append(threading.current_thread())
        return Prompt([1, 2, 3], {"json": {}}, EngineFields(require_reasoning=True))

    request = chat_request(tools=[TOOL], tool_choice="required", include_reasoning=False)
    prepared = prepare(make_prompt, request)
    assert threads[0] is not threading.main_thread()
    assert prepared.request is request
    assert prepared.preprocessed["token_ids"] == [1, 2, 3]
    assert prepared.preprocessed["require_reasoning"] is True
    assert prepared.preprocessed["sampling_options"]["guided_decoding"] == {"json": {}}
    assert prepared.params.prompt_length == 3
    assert prepared.params.parser.json_calls
    assert not prepared.params.parser.include_reasoning


def test_the_parsers_get_the_templates_arguments():
    kwargs = {"enable_thinking": False}
    fields = EngineFields(reasoning_parser_kwargs=ReasoningParserKwargs(kwargs))
    prepared = prepare(lambda request: Prompt([1], None, fields))
    assert prepared.params.parser.chat_template_kwargs == kwargs


@pytest.mark.parametrize(
    ("context_length", "max_tokens"), [(10, 7), (None, (FILES.context_length or 0) - 3)]
)
def test_the_workers_context_counts_before_the_models(context_length, max_tokens):
    prepared = prepare(lambda request: Prompt([1, 2, 3]), context_length=context_length)
    assert prepared.preprocessed["stop_conditions"]["max_tokens"] == max_tokens


def test_errors_reach_the_caller():
    def fail(request):
        raise RequestError("messages", "must not be empty")

    with pytest.raises(RequestError, match="messages"):
        prepare(fail)


def test_a_full_queue_refuses():
    started, go_on = threading.Event(), threading.Event()

    def wait(request):
        started.set()
        go_on.wait(30.0)
        return Prompt([1])

    preprocessor = PromptPreprocessor(wait, FILES, PromptQueue(threads=1, waiting=0), None)

    async def request():
        async with preprocessor(chat_request()) as prepared:
            return prepared

    async def run():
        first = asyncio.create_task(request())
        await asyncio.to_thread(started.wait, 30.0)
        with pytest.raises(BusyError):
            await request()
        go_on.set()
        return await first

    assert asyncio.run(run()).params.prompt_length == 1


def threads_of(requests, *, may_block=False, fails_at=None):
    """Return in which threads prompts are made, and the errors that callers get."""
    threads, errors = [], []

    def make_prompt(request):
        threads.append(threading.current_thread())
        if len(threads) == fails_at:
            raise SystemExit("a template may raise anything")
        return Prompt([1])

    queue = PromptQueue(threads=1)
    preprocessor = PromptPreprocessor(make_prompt, FILES, queue, None, may_block=may_block)

    async def run():
        for request in requests:
            try:
                async with preprocessor(request):
                    pass
            except PreparationError as error:
                errors.append(error)

    asyncio.run(run())
    return [thread is threading.main_thread() for thread in threads], errors


def test_short_prompts_are_made_at_once_when_they_have_shown_to_be_quick():
    short, long = chat_request(), chat_request(tools=[TOOL])
    at_once, _ = threads_of([short] * TRUSTED_AFTER + [short, long, short])
    assert at_once == [False] * TRUSTED_AFTER + [True, False, True]


def test_those_that_may_wait_for_something_never_are():
    at_once, _ = threads_of([chat_request()] * (TRUSTED_AFTER + 1), may_block=True)
    assert not any(at_once)


def test_what_a_template_raises_does_not_end_the_event_loop():
    fails_at = TRUSTED_AFTER + 1
    at_once, errors = threads_of([chat_request()] * (fails_at + 1), fails_at=fails_at)
    assert at_once == [False] * TRUSTED_AFTER + [True, True]
    assert len(errors) == 1
