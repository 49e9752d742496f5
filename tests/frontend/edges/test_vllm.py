"""What is Backedge's own in vLLM's forward edge; `test_edges` tests its prompts."""

import pytest
from backedge.frontend.edges.vllm import (
    FilteredCard,
    VllmPreprocessed,
    build_prepared,
    release_caches,
    wrap_chat_template,
)
from backedge.frontend.request.sampling import read_sampling
from backedge.parsers.guided.call_policy import CallPolicy
from backedge.tokenization.prompt_limit import PromptLimit
from vllm.tokenizers.registry import cached_get_tokenizer

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
