"""Prompts that are rendered and tokenized in place of vLLM's renderer; `test_edges` tests them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from backedge.base.errors import RequestError
from backedge.engines.vllm.prompt_renderer import RENDERING, PromptRenderer, Rendering
from backedge.frontend.containment import PreparationError
from backedge.frontend.prompt_queue import PromptQueue
from backedge.templates.rendering import SlowTemplateError, allowing
from backedge.templates.transformers_tokenizers import make_encoder
from backedge.tokenization.prompt_cache import PromptLimit
from transformers import AutoTokenizer
from vllm.config import ModelConfig

from tests.support import TINY_MODEL, encode

pytestmark = pytest.mark.usefixtures("bounded_templates")
MESSAGES = [{"role": "user", "content": "hi"}]


@pytest.fixture(scope="module")
def model_config() -> Any:
    return ModelConfig(str(TINY_MODEL))


def render(
    model_config: Any, template: str, how: Rendering, limit: int | None = None, **options: Any
) -> Any:
    tokenizer = AutoTokenizer.from_pretrained(TINY_MODEL)
    tokenizer.chat_template = template
    encoder = make_encoder(tokenizer, None)
    queue = PromptQueue(threads=1)
    renderer = PromptRenderer(tokenizer, encoder, "vllm", PromptLimit(limit), queue)

    async def run() -> Any:
        RENDERING.set(how)
        return await renderer(model_config, None, MESSAGES, tokenize=False, **options)

    return asyncio.run(run())


@pytest.mark.parametrize("in_place", [True, False])
def test_a_prompt_is_text_and_token_ids(model_config: Any, in_place: bool) -> None:
    made = render(model_config, "{{ messages[0].content }}", Rendering(in_place))
    assert made == {"prompt": "hi", "prompt_token_ids": encode("hi")}


def test_a_slow_template_is_left_at_once_in_place_and_rendered_elsewhere(model_config: Any) -> None:
    loops = "{% for a in range(99999) %}{% for b in range(200) %}{% endfor %}{% endfor %}"
    template = loops + "{{ messages[0].content }}"
    with allowing(1.0), pytest.raises(SlowTemplateError):
        render(model_config, template, Rendering(in_place=True))
    made = render(model_config, template, Rendering())
    assert made == {"prompt": "hi", "prompt_token_ids": encode("hi")}


def test_dynamo_tokenizes_with_special_tokens(model_config: Any) -> None:
    how = Rendering(encodes=False)
    assert render(model_config, "{{ messages[0].content }}", how) == "hi"


@pytest.mark.parametrize(
    ("template", "limit", "allowed"),
    [
        ("{{ raise_exception('no such role') }}", None, "no such role"),
        ("{{ 'word ' * 200 }}", 100, "tokens; at most 99"),
        ("{{ 'word ' * 100000 }}", 100, "at most 99"),
    ],
)
def test_what_is_refused(model_config: Any, template: str, limit: int | None, allowed: str) -> None:
    with pytest.raises(RequestError, match=allowed) as refused:
        render(model_config, template, Rendering(), limit)
    assert refused.value.field == "messages"


def test_a_panic_ends_no_event_loop(model_config: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def panic(*_: object, **__: object) -> None:
        raise SystemExit(3)

    monkeypatch.setattr("vllm.renderers.hf.safe_apply_chat_template", panic)
    with pytest.raises(PreparationError, match="SystemExit: 3"):
        render(model_config, "", Rendering(in_place=True))
