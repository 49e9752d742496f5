"""Templates that transformers compiles: within bounds, and with their own variables only."""

from __future__ import annotations

from typing import Any

import pytest
from backedge.base.errors import RequestError, SetupError
from backedge.templates.chat_template import compile_template
from backedge.templates.transformers_tokenizers import (
    BoundedTokenizer,
    check_template,
)
from backedge.tokenization.prompt_cache import PromptLimit
from sglang.srt.utils.hf_transformers_utils import get_tokenizer

from tests.support import TINY_MODEL

MESSAGES = [{"role": "user", "content": "hi"}]


@pytest.fixture
def tokenizer(bounded_templates: None) -> Any:
    return get_tokenizer(str(TINY_MODEL))


def prompt(tokenizer: Any, limit: PromptLimit | None = None, **variables: Any) -> Any:
    bounded = BoundedTokenizer(tokenizer, limit or PromptLimit())
    return bounded.apply_chat_template(
        MESSAGES, add_generation_prompt=True, tokenize=True, **variables
    )


def test_the_prompt_is_that_of_the_tokenizer(tokenizer: Any) -> None:
    own = tokenizer.apply_chat_template(MESSAGES, add_generation_prompt=True, enable_thinking=False)
    assert prompt(tokenizer, enable_thinking=False) == own["input_ids"]
    assert prompt(tokenizer, enable_thinking=False) != prompt(tokenizer)


@pytest.mark.parametrize(
    "variables", [{"padding": "max_length", "max_length": 20_000_000}, {"other": 1}]
)
def test_what_the_template_does_not_read_is_left_out(tokenizer: Any, variables: Any) -> None:
    assert prompt(tokenizer, **variables) == prompt(tokenizer)


def test_documents_are_a_variable(tokenizer: Any) -> None:
    tokenizer.chat_template = "{% for d in documents %}{{ d.text }}{% endfor %}"
    assert prompt(tokenizer, documents=[{"text": "abc"}])
    assert not prompt(tokenizer, documents=[])


def test_what_transformers_compiles_is_bounded(tokenizer: Any) -> None:
    tokenizer.chat_template = "{{ 'x' * 10 ** 9 * (messages | length) }}"
    with pytest.raises(Exception, match="the chat template makes"):
        prompt(tokenizer)


def test_a_prompt_that_is_too_long_is_refused(tokenizer: Any) -> None:
    tokenizer.chat_template = "{{ 'word ' * 100000 }}"
    with pytest.raises(RequestError, match="at most 99 tokens"):
        prompt(tokenizer, PromptLimit(100))


@pytest.mark.parametrize("template", ["{% if %}", "(" * 5000, {"default": "{% endfor %}"}])
def test_a_template_that_cannot_be_compiled_is_refused_when_the_model_comes(
    tokenizer: Any, template: Any
) -> None:
    tokenizer.chat_template = (
        "{{ " + template + ")" * 5000 + " }}" if template == "(" * 5000 else template
    )
    with pytest.raises(SetupError, match="cannot be compiled"):
        check_template(tokenizer)


def test_templates_are_compiled_once() -> None:
    assert compile_template("{{ a }}") is compile_template("{{ a }}")


class Own:
    """A tokenizer that renders in a way of its own."""

    chat_template = None

    def apply_chat_template(
        self, conversation: Any, tools: Any, tokenize: bool, add_generation_prompt: bool, a: int = 0
    ) -> list[int]:
        return [a, len(conversation), tokenize]

    def encode(self, text: str) -> list[int]:
        return [len(text)]


def test_a_tokenizer_that_renders_itself_gets_its_own_arguments() -> None:
    assert prompt(Own(), a=5, b=6) == [5, 1, True]
    assert BoundedTokenizer(Own(), PromptLimit()).encode("abc") == [3]  # type: ignore[arg-type]  # no convert_tokens_to_ids
