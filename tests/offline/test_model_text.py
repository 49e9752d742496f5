"""Prompts by transformers are those of our own template code."""

import shutil

import pytest
from backedge.base.errors import RequestError, SetupError
from backedge.offline import ModelLoadConfig
from backedge.offline.model_text import open_text
from backedge.templates.model_prompts import ModelPrompts

from tests.support import TINY_MODEL, TRANSCRIPTS

FILES = ModelPrompts(TINY_MODEL)
TEXT = open_text(ModelLoadConfig(TINY_MODEL))


@pytest.mark.parametrize(
    "transcript", TRANSCRIPTS.values(), ids=lambda transcript: transcript["id"]
)
def test_a_transcripts_prompt(transcript):
    arguments = (transcript["messages"], transcript.get("tools"))
    kwargs = transcript.get("chat_template_kwargs", {})
    text = TEXT.render(*arguments, **kwargs)
    assert text == FILES.template.render(*arguments, **kwargs)
    assert TEXT.encode(text) == FILES.encode(text)


def test_the_models_settings():
    assert set(TEXT.eos_token_ids) == {553, 551}
    assert TEXT.context_length == 2048
    assert open_text(ModelLoadConfig(TINY_MODEL, max_model_len=99)).context_length == 99
    assert TEXT.generation_config.temperature == 0.0


@pytest.mark.parametrize("name", ["tokenize", "padding", "max_length", "chat_template"])
def test_variables_that_are_arguments_of_the_renderer_are_refused(name):
    with pytest.raises(RequestError, match=f"chat_template_kwargs.{name}"):
        TEXT.render([{"role": "user", "content": "Hi"}], None, **{name: 1})


def test_an_image_is_no_text():
    content = [{"type": "image_url", "image_url": {"url": "x"}}]
    with pytest.raises(RequestError, match=r"messages\[0\].content\[0\].type"):
        TEXT.render([{"role": "user", "content": content}], None)


def test_a_template_that_raises(tmp_path):
    shutil.copytree(TINY_MODEL, tmp_path, dirs_exist_ok=True)
    (tmp_path / "chat_template.jinja").write_text("{{ raise_exception('users only') }}")
    text = open_text(ModelLoadConfig(tmp_path))
    with pytest.raises(RequestError, match="users only"):
        text.render([{"role": "user", "content": "Hi"}], None)


def test_a_model_that_is_not_there(monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(
        SetupError, match="'no/such' is not a folder, and cannot be downloaded from the hub"
    ):
        open_text(ModelLoadConfig("no/such"))


def test_a_folder_without_a_tokenizer(tmp_path):
    with pytest.raises(SetupError, match=r"the tokenizer of .* cannot be loaded"):
        open_text(ModelLoadConfig(tmp_path))
