"""What is Backedge's own in vLLM's forward edge; `test_edges` tests its prompts."""

import asyncio
from contextlib import asynccontextmanager
from types import SimpleNamespace

import msgspec
import pytest
from backedge.engines.vllm.frontend import (
    FilteredCard,
    VllmPreprocessed,
    VllmProcessor,
    build_prepared,
    release_caches,
    wrap_chat_template,
)
from backedge.frontend.request.chat_request import decode_chat_request
from backedge.frontend.request.sampling import read_sampling
from backedge.guided.call_policy import CallPolicy
from backedge.postprocess.messages import KEY
from backedge.tokenization.prompt_limit import PromptLimit
from dynamo.llm.exceptions import DynamoException
from vllm.renderers import hf
from vllm.renderers.mistral import MistralRenderer
from vllm.tokenizers.registry import cached_get_tokenizer

from tests.engines.frontends.all_edges import prepared
from tests.frontend.chat_requests import TOOL, chat_request
from tests.frontend.doubles import Card
from tests.support import TINY_MODEL


@pytest.mark.parametrize(("constrains", "tags"), [(True, {"scope": "always"}), (False, None)])
def test_the_factory_sees_no_parsers(constrains, tags):
    seen = {"tool_call_parser": "hermes", "structural_tag": {"scope": "always"}}
    card = FilteredCard(Card(seen | {"context_length": 5}), constrains=constrains)
    assert card.runtime_config() == {
        "tool_call_parser": None,
        "reasoning_parser": None,
        "structural_tag": tags,
        "context_length": 5,
    }
    assert card.name() == "tiny"  # type: ignore[operator]  # all else is the card's


NO_POLICY = CallPolicy(enabled=False)
# what Dynamo has made of the request, the parser's request: forced calls are JSON, arguments
MADE = [
    ({"sampling_options": {}}, True, {"a": 1}),
    ({"sampling_options": {"guided_decoding": {"json": {}}}}, True, {"a": 1}),
    ({"sampling_options": {"guided_decoding": {"structural_tag": {}}}}, False, {"a": 1}),
    (
        {
            "sampling_options": {"guided_decoding": None},
            "reasoning_parser_kwargs": {"chat_template_kwargs": {"b": 2}},
            "extra_args": {"reasoning_parser_kwargs": {}},
        },
        True,
        {"b": 2},
    ),
]


@pytest.mark.parametrize(("made", "json_calls", "kwargs"), MADE)
def test_dynamos_request_tells_how_the_answer_is_parsed(made, json_calls, kwargs):
    request = chat_request(tools=[TOOL], tool_choice="required", chat_template_args={"a": 1})
    preprocessed = {"token_ids": [1, 2], **made}
    prepared = build_prepared(
        request, VllmPreprocessed("1", preprocessed, 2, read_sampling(request), False), NO_POLICY
    )
    assert prepared.preprocessed is preprocessed
    assert prepared.params.prompt_length == 2
    assert prepared.params.parser.json_calls is json_calls
    assert prepared.params.parser.chat_template_kwargs == kwargs
    assert not prepared.params.parser.include_reasoning


class Renderer:
    """One of vLLM's that does not use Jinja."""

    def __init__(self):
        self.is_shut_down = False

    def shutdown(self):
        self.is_shut_down = True


def test_renderers_without_jinja_stay_as_they_are():
    renderer = Renderer()
    wrap_chat_template(renderer, "sglang", PromptLimit())
    assert vars(renderer) == {"is_shut_down": False}


def test_a_model_that_goes_takes_its_threads_and_tokenizers_along():
    renderer = Renderer()
    cached_get_tokenizer(str(TINY_MODEL))
    assert cached_get_tokenizer.cache_info().currsize
    release_caches(renderer)
    assert renderer.is_shut_down
    assert not cached_get_tokenizer.cache_info().currsize


USER = {"role": "user", "content": "Count to 9, 世界 😀."}
SHORT = [
    {"messages": [USER]},
    {"messages": [{"role": "system", "content": ""}, USER], "temperature": 0.5, "max_tokens": 7},
    {"messages": [USER], "chat_template_kwargs": {"enable_thinking": False}, "stop": ["9"]},
    {"messages": [USER], "logprobs": True, "top_logprobs": 2, "n": 3, "stream": True},
    {"messages": [USER], "include_reasoning": False, "seed": 1, "bad_words": ["x"]},
    {"messages": [USER], "request_id": "mine", "guided_regex": "[0-9]+"},
    # Refused.
    {"messages": []},
    {"messages": [USER], "temperature": -1},
    {"messages": [USER], "chat_template_kwargs": {"messages": []}},
    {"messages": [{"role": "tool", "content": "22", "tool_call_id": "7"}], "max_tokens": 1 << 40},
    {"messages": [USER], "continue_final_message": True, "add_generation_prompt": True},
]


def outcome(loop, model, fields):
    """Return a prepared request, without what is drawn for it, or why it is refused."""
    try:
        made = prepared(loop, model, fields)
    except DynamoException as error:
        return type(error), str(error)
    made.preprocessed["extra_args"].pop(KEY)
    return made.preprocessed, msgspec.structs.replace(made.params, response_id="", created=0)


@pytest.mark.parametrize("fields", SHORT, ids=repr)
def test_a_short_prompt_is_the_same_wherever_it_is_made(models, loop, fields, monkeypatch):
    model = models["vllm", "vllm"]
    at_once = outcome(loop, model, fields)
    monkeypatch.setattr(VllmProcessor, "can_prepare_at_once", lambda *_: False)
    assert at_once == outcome(loop, model, fields)


@pytest.mark.skipif(
    hasattr(hf.HfRenderer, "_render_with_timeout"), reason="vLLM 0.32 waits for a time limit"
)
def test_a_short_prompt_is_made_at_once(models, loop, monkeypatch):
    made = []
    prepare_at_once = VllmProcessor.prepare_at_once

    def note(self, request, policy):
        made.append(prepare_at_once(self, request, policy))
        return made[-1]

    monkeypatch.setattr(VllmProcessor, "prepare_at_once", note)
    request = prepared(loop, models["vllm", "vllm"], {"messages": [USER]})
    assert made == [request]


IMAGE = {"type": "image_url", "image_url": {"url": "http://x/y.png"}}
SAID = [("hi", True), (None, True), ([{"type": "text", "text": "hi"}], False), ([IMAGE], False)]


def new_processor(renderer=hf.HfRenderer):
    processor = VllmProcessor.__new__(VllmProcessor)
    processor._has_waited = False
    processor.input_processor = SimpleNamespace(renderer=renderer.__new__(renderer))
    return processor


@pytest.mark.parametrize(("content", "can"), SAID)
def test_what_may_have_to_be_fetched_is_waited_for(content, can):
    raw = {"model": "tiny", "messages": [{"role": "assistant", "content": content}]}
    assert new_processor().can_prepare_at_once(decode_chat_request(raw)) is can


def test_renderers_without_jinja_wait_for_their_threads():
    assert not new_processor(MistralRenderer).can_prepare_at_once(chat_request())


@pytest.mark.parametrize("seconds", [0, 0.001])
def test_what_waits_after_all_is_prepared_in_an_event_loop(monkeypatch, seconds):
    """Another version of vLLM or Dynamo may wait for something where this one does not."""

    @asynccontextmanager
    async def prepare(*_):
        await asyncio.sleep(seconds)
        yield None

    monkeypatch.setattr(VllmProcessor, "prepare", prepare)
    processor, request = new_processor(), chat_request()
    assert processor.can_prepare_at_once(request)
    assert processor.prepare_at_once(request, NO_POLICY) is None
    assert not processor.can_prepare_at_once(request)


def test_other_errors_are_raised(monkeypatch):
    def prepare(*_):
        raise RuntimeError("out of memory")

    monkeypatch.setattr(VllmProcessor, "prepare", prepare)
    with pytest.raises(RuntimeError, match="out of memory"):
        new_processor().prepare_at_once(chat_request(), NO_POLICY)
