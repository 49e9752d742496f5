"""The fields that SGLang's frontend sends the engine; `test_edges` tests its prompts."""

import copy

import msgspec
import pytest
from backedge.base.errors import RequestError
from backedge.engines.sglang.frontend import SglangPrompts, remember_content_formats
from backedge.guided.call_policy import CallPolicy
from backedge.guided.client_schemas import standardize
from backedge.parsers.base import ParserNames
from dynamo.frontend import sglang_prepost
from sglang.srt.function_call import utils as function_call_utils
from sglang.srt.utils.hf_transformers_utils import get_tokenizer

from tests.frontend.chat_requests import TOOL, chat_request
from tests.support import TINY_MODEL

NAMES = ParserNames("qwen25", "qwen3")


NO_POLICY = CallPolicy(enabled=False)


@pytest.fixture(scope="module")
def tokenizer():
    return get_tokenizer(str(TINY_MODEL))


@pytest.fixture
def prompts(tokenizer):
    return SglangPrompts(tokenizer, NAMES, {}, "sglang", NO_POLICY, hides_unused_tools=True)


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
    vllm = SglangPrompts(tokenizer, NAMES, {}, "vllm", NO_POLICY, hides_unused_tools=True)
    request = chat_request(tools=[TOOL])
    assert vllm(request).token_ids != prompts(request).token_ids
    assert "tools" not in msgspec.to_builtins(vllm(request).engine_fields).get(
        "reasoning_parser_kwargs", {}
    ).get("chat_template_kwargs", {})
    forbidden = chat_request(tools=[TOOL], tool_choice="none")
    assert vllm(forbidden).token_ids == prompts(chat_request()).token_ids


def test_other_languages_type_names(tokenizer, prompts):
    """SGLang's server rewrites them before it renders; vLLM's leaves them in the prompt."""
    written, standard = (
        chat_request(tools=[{**TOOL, "function": {"name": "f", "parameters": {"type": name}}}])
        for name in ("dict", "object")
    )
    assert prompts(written).token_ids == prompts(standard).token_ids
    forced = chat_request(tools=written.raw["tools"], tool_choice="required")
    assert '"dict"' not in str(prompts(forced).guided_decoding)
    vllm = SglangPrompts(tokenizer, NAMES, {}, "vllm", NO_POLICY, hides_unused_tools=True)
    assert vllm(written).token_ids != vllm(standard).token_ids


SGLANG_NAMES = sorted(
    {
        *function_call_utils._JSON_SCHEMA_TYPE_ALIASES,
        *function_call_utils._STANDARD_JSON_SCHEMA_TYPES,
    }
    | {prefix for prefixes, _ in function_call_utils._PREFIX_RULES for prefix in prefixes}
)


@pytest.mark.parametrize("name", SGLANG_NAMES)
def test_type_names_mean_what_they_mean_in_sglang(name):
    for spelled in (name, name.upper(), f"{name}(5)", f"{name} "):
        schema = {"type": "object", "properties": {"a": {"type": [spelled, "null"]}}}
        expected = copy.deepcopy(schema)
        function_call_utils.normalize_json_schema_types(expected)
        assert standardize(schema) == expected


def test_messages_that_the_template_rejects_are_the_requests_fault(tokenizer):
    rejecting = get_tokenizer(str(TINY_MODEL))
    rejecting.chat_template = "{{ raise_exception('no such role') }}"
    prompts = SglangPrompts(rejecting, NAMES, {}, "sglang", NO_POLICY, hides_unused_tools=True)
    with pytest.raises(RequestError, match="no such role"):
        prompts(chat_request())


def test_a_template_is_looked_at_once(prompts):
    remember_content_formats()
    remember_content_formats()
    found = sglang_prepost.detect_jinja_template_content_format
    before = found.cache_info()
    for _ in range(3):
        prompts(chat_request())
    after = found.cache_info()
    assert after.hits + after.misses == before.hits + before.misses + 3
    assert after.misses - before.misses <= 1
    assert found.__wrapped__("{{ messages[0].content }}") == "string"
