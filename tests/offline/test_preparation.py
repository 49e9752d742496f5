"""Which requests are rows, and what they are refused for."""

import pytest
from backedge.base.errors import UnknownParserError
from backedge.offline import (
    GenerationOptions,
    ModelLoadConfig,
    TextGenerationRequest,
    VlmGenerationRequest,
)
from backedge.offline.preparation import Preparation, read_request
from backedge.offline.rows import RowFailure
from backedge.testing.offline import ReplayBackend

from tests.offline.batches import ask
from tests.support import TINY_MODEL, encode


def prepare(**fields):
    config = ModelLoadConfig(TINY_MODEL, backend="replay", **fields)
    return Preparation(ReplayBackend(config))


def build(request, options=None, **fields):
    return prepare(**fields).build_row(
        "text", 0, "a", read_request(request), options or GenerationOptions(), []
    )


def test_the_answer_gets_the_room_that_the_prompt_leaves():
    row = build(ask("Hi"), max_model_len=100)
    assert row.max_new_tokens == 100 - len(row.prompt.token_ids)
    assert build(ask("Hi"), GenerationOptions(max_new_tokens=7)).max_new_tokens == 7


def test_a_prompt_is_tokenized_as_it_is():
    row = build(TextGenerationRequest(prompt="Say <|im_end|>"))
    assert row.prompt.token_ids == encode("Say <|im_end|>")


def test_only_the_end_of_a_prompt_is_kept_on_request():
    whole = build(ask("Hi")).prompt.token_ids
    row = build(ask("Hi"), GenerationOptions(truncate_prompt_tokens=5), max_model_len=8)
    assert row.prompt.token_ids == whole[-5:]


IMAGE = [{"type": "image_url", "image_url": {"url": "x"}}]
LONG = "word " * 5000
# request, kind of the error, part of its message
BAD = [
    (TextGenerationRequest(), "request", "either messages or a prompt"),
    (TextGenerationRequest(messages=[], prompt="x"), "request", "not both"),
    (
        TextGenerationRequest(prompt=5),  # type: ignore[arg-type]  # as a caller may
        "request",
        "prompt must be a string, not 5",
    ),
    (TextGenerationRequest(prompt=""), "request", "the prompt is empty"),
    (TextGenerationRequest(messages=[{"role": "x"}]), "request", "messages[0].role"),
    (
        TextGenerationRequest(messages=[{"role": "user", "content": IMAGE}]),
        "request",
        "must be text, not",
    ),
    (ask("Hi", options={"n": 1}), "request", "options must be GenerationOptions, not {'n': 1}"),
    ({"messages": []}, "request", "is not a TextGenerationRequest"),
    (VlmGenerationRequest(image="x", prompt="y"), "request", "generate_vlm_batch"),
    (ask(LONG), "prompt_too_long", "tokens; at most 2047 tokens"),
    (ask(LONG * 20), "prompt_too_long", "characters; at most 2047 tokens"),
    (ask("\ud800"), "template", "surrogates not allowed"),
]


@pytest.mark.parametrize(("request_", "kind", "part"), BAD)
def test_what_is_no_row(request_, kind, part):
    with pytest.raises(RowFailure) as caught:
        build(request_)
    assert caught.value.error.kind == kind
    assert part in caught.value.error.message


def test_a_template_that_refuses(tmp_path):
    for name in ("tokenizer.json", "config.json"):
        (tmp_path / name).write_text((TINY_MODEL / name).read_text())
    (tmp_path / "chat_template.jinja").write_text(
        "{% if messages[0].content == 'Hi' %}{{ raise_exception('roles must alternate') }}"
        "{% endif %}{{ messages[0].content }}"
    )
    config = ModelLoadConfig(tmp_path, backend="replay")
    with pytest.raises(RowFailure) as caught:
        Preparation(ReplayBackend(config)).build_row(
            "text", 0, "a", read_request(ask("Hi")), GenerationOptions(), []
        )
    assert caught.value.error.kind == "template"
    assert "roles must alternate" in caught.value.error.message


def test_parsers_are_known_before_rows():
    with pytest.raises(UnknownParserError, match="'hermez' is not known"):
        prepare().choose_parsers(GenerationOptions(message=True, tool_call_parser="hermez"))
