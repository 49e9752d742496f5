"""What is spared changes nothing of a request; `test_edges` compares the prompts."""

from backedge.engines.vllm.frontend_shortcuts import (
    MAX_SHARED,
    MAX_SHARED_BYTES,
    SharedParsers,
    without_pool,
)
from transformers import AutoTokenizer
from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionRequest
from vllm.reasoning import ReasoningParserManager
from vllm.tokenizers import get_tokenizer
from vllm.tokenizers.hf import maybe_make_thread_pool

from tests.support import TINY_MODEL

MODEL = {"model_config": None}


def test_requests_with_the_same_arguments_share_a_parser():
    make = SharedParsers(lambda tokenizer, **options: [tokenizer, options])
    first = make("tokenizer", chat_template_kwargs={"a": 1}, **MODEL)
    assert first == ["tokenizer", {"chat_template_kwargs": {"a": 1}, **MODEL}]
    assert make("tokenizer", chat_template_kwargs={"a": 1}, **MODEL) is first
    for other in (True, "1", None):  # 1 == True, but not for a template
        assert make("tokenizer", chat_template_kwargs={"a": other}, **MODEL) is not first


def test_shared_parsers_are_bounded():
    make = SharedParsers(lambda tokenizer, **options: object())
    long = {"a": "x" * MAX_SHARED_BYTES}
    assert make(None, chat_template_kwargs=long) is not make(None, chat_template_kwargs=long)
    made = [make(None, chat_template_kwargs={"a": number}) for number in range(MAX_SHARED + 1)]
    assert make(None, chat_template_kwargs={"a": MAX_SHARED}) is made[-1]
    assert make(None, chat_template_kwargs={"a": 0}) is not made[0]


def test_no_parser_of_vllm_changes_when_it_is_asked():
    """Else requests could not share one."""
    tokenizer = get_tokenizer(str(TINY_MODEL))
    asked = 0
    for name in ReasoningParserManager.list_registered():
        try:
            parser = ReasoningParserManager.get_reasoning_parser(name)(
                tokenizer, chat_template_kwargs={}, model_config=None
            )
        except (KeyError, RuntimeError, ValueError):  # this tokenizer lacks its tokens
            continue
        request = ChatCompletionRequest(messages=[{"role": "user", "content": "hi"}])
        before = read_state(parser)
        parser.adjust_request(request)
        parser.is_reasoning_end([1, 2, 3])
        assert read_state(parser) == before, name
        asked += 1
    assert asked > 10


def read_state(value, seen=()):
    """Return all attributes of an object of vLLM's, and of those that it has."""
    if (
        id(value) in seen
        or not type(value).__module__.startswith("vllm.")
        or isinstance(value, type)
    ):
        return repr(value)
    names = {name for layer in type(value).__mro__ for name in getattr(layer, "__slots__", ())}
    names |= getattr(value, "__dict__", {}).keys()
    inner = (*seen, id(value))
    return {name: read_state(getattr(value, name, None), inner) for name in names}


def test_who_renders_borrows_no_tokenizer():
    """Else whoever comes meanwhile makes another copy of it, perhaps in the event loop."""
    plain = AutoTokenizer.from_pretrained(TINY_MODEL)
    assert without_pool(plain) is plain
    pooled = maybe_make_thread_pool(AutoTokenizer.from_pretrained(TINY_MODEL))
    renders = without_pool(pooled)
    assert type(renders) is type(plain)
    pooled.chat_template = "{% for message in messages %}{{ message.content }}{% endfor %}"
    messages = [{"role": "user", "content": "hi"}]
    assert renders.apply_chat_template(messages, tokenize=False) == "hi"
