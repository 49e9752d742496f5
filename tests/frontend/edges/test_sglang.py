"""What SGLang's forward edge tells the engine; `test_edges` tests its prompts."""

import msgspec
import pytest
from backedge.frontend.edges.sglang import SglangPrompts
from backedge.parsers.base import ParserNames
from backedge.parsers.errors import RequestError
from sglang.srt.utils.hf_transformers_utils import get_tokenizer

from tests.frontend.chat_requests import TOOL, chat_request
from tests.support import TINY_MODEL

NAMES = ParserNames("qwen25", "qwen3")


@pytest.fixture(scope="module")
def tokenizer():
    return get_tokenizer(str(TINY_MODEL))


@pytest.fixture
def prompts(tokenizer):
    return SglangPrompts(tokenizer, NAMES, {}, "sglang", hides_unused_tools=True)


@pytest.mark.parametrize("name", ["chat_template_kwargs", "chat_template_args"])
def test_the_engine_is_told_the_templates_arguments(prompts, name):
    fields = msgspec.to_builtins(prompts(chat_request(**{name: {"a": 1}})).engine_fields)
    assert fields == {
        "require_reasoning": False,
        "reasoning_parser_kwargs": {"chat_template_kwargs": {"a": 1}},
    }
    assert "reasoning_parser_kwargs" not in msgspec.to_builtins(
        prompts(chat_request()).engine_fields
    )


def test_images_are_passed_on(prompts):
    image = {"type": "image_url", "image_url": {"url": "http://x/y.png"}}
    content = [{"type": "text", "text": "hi"}, image]
    made = prompts(chat_request(messages=[{"role": "user", "content": content}]))
    assert made.engine_fields.multi_modal_data == {"image_url": [{"Url": "http://x/y.png"}]}


def test_other_engines_get_their_own_spelling_of_tools(tokenizer, prompts):
    vllm = SglangPrompts(tokenizer, NAMES, {}, "vllm", hides_unused_tools=True)
    request = chat_request(tools=[TOOL])
    assert vllm(request).token_ids != prompts(request).token_ids
    assert "tools" not in msgspec.to_builtins(vllm(request).engine_fields).get(
        "reasoning_parser_kwargs", {}
    ).get("chat_template_kwargs", {})
    forbidden = chat_request(tools=[TOOL], tool_choice="none")
    assert vllm(forbidden).token_ids == prompts(chat_request()).token_ids


def test_messages_that_the_template_rejects_are_the_requests_fault(tokenizer):
    rejecting = get_tokenizer(str(TINY_MODEL))
    rejecting.chat_template = "{{ raise_exception('no such role') }}"
    prompts = SglangPrompts(rejecting, NAMES, {}, "sglang", hides_unused_tools=True)
    with pytest.raises(RequestError, match="no such role"):
        prompts(chat_request())
