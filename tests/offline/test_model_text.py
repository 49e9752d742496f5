"""Prompts by transformers are those of our own template code."""

import dataclasses
import shutil
from pathlib import Path
from typing import Any

import mistral_common
import pytest
from backedge.base.errors import RequestError, SetupError
from backedge.offline import GenerationOptions, ModelLoadConfig
from backedge.offline.model_text import open_text, render_conversation
from backedge.templates.chat_template import ModelPrompts
from backedge.testing.offline import ReplayBackend
from backedge.tokenization.detokenizer import DetokenizerOptions, detokenizers
from backedge.tokenization.mistral import MistralTokenizer

from examples.my_tokenizer import MyTokenizer
from tests.offline.batches import ask, request
from tests.support import TINY_MODEL, TRANSCRIPTS

TEXT = open_text(ModelLoadConfig(TINY_MODEL))
# As servers of these engines make them.
ENGINES: dict[str, Any] = {
    engine: (
        open_text(ModelLoadConfig(TINY_MODEL, backend=engine)),
        ModelPrompts(TINY_MODEL, engine=engine),
    )
    for engine in ("vllm", "sglang")
}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    "transcript", TRANSCRIPTS.values(), ids=lambda transcript: transcript["id"]
)
def test_a_transcripts_prompt(transcript, engine):
    arguments = (transcript["messages"], transcript.get("tools"))
    kwargs = transcript.get("chat_template_kwargs", {})
    offline, online = ENGINES[engine]
    text = offline.render(*arguments, **kwargs)
    assert text == online.template.render(*arguments, **kwargs)
    assert offline.encode(text) == online.encode(text)


def test_the_models_settings():
    assert set(TEXT.eos_token_ids) == {553, 551}
    assert TEXT.context_length == 2048
    assert open_text(ModelLoadConfig(TINY_MODEL, max_model_len=99)).context_length == 99
    assert TEXT.generation_config.temperature == 0.0


@pytest.mark.parametrize(
    "name", ["tokenize", "padding", "max_length", "chat_template", "tools", "messages"]
)
def test_variables_that_are_arguments_of_the_renderer_are_refused(name):
    with pytest.raises(RequestError, match=f"chat_template_kwargs.{name}"):
        render_conversation(
            TEXT.render, ask("Hi"), GenerationOptions(chat_template_kwargs={name: 1})
        )


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


@pytest.mark.parametrize(
    "file", ["tekken_240911.json", "mistral_instruct_tokenizer_241114.model.v7"]
)
def test_mistral_common_makes_the_prompts_that_servers_get(file, tmp_path):
    name = "tekken.json" if file.endswith(".json") else "tokenizer.model.v7"
    shutil.copy(Path(mistral_common.__file__).parent / "data" / file, tmp_path / name)
    (tmp_path / "config.json").write_text('{"max_position_embeddings": 9999}')
    backend = ReplayBackend(ModelLoadConfig(TINY_MODEL, backend="replay"))
    text = open_text(ModelLoadConfig(tmp_path))
    server = MistralTokenizer(str(tmp_path))
    for transcript in TRANSCRIPTS.values():
        row = request(transcript, chat_template_kwargs={})
        try:
            expected = server.tokenize(transcript["messages"], "model", transcript.get("tools"))
        except RequestError:
            continue
        prompt = backend.build_prompt(text, row, GenerationOptions())
        assert prompt.token_ids == expected, transcript["id"]
    [plain] = {tuple(text.encode_plain("[INST] Hi")[:1])}
    assert plain == (1,), "a text begins with the token for the beginning"
    assert server.tokenizer.eos_id in text.eos_token_ids


OWN: Any = {"tokenizer_module": "examples.my_tokenizer", "tokenizer_class": "MyTokenizer"}


def test_a_tokenizer_of_ones_own_makes_prompts_and_decodes():
    text = open_text(ModelLoadConfig(TINY_MODEL, **OWN))
    own = MyTokenizer("")
    row = ask("Grüß Gott", tool_choice="none", tools=[{"type": "function"}])
    backend = ReplayBackend(ModelLoadConfig(TINY_MODEL, backend="replay"))
    prompt = backend.build_prompt(text, row, GenerationOptions())
    assert prompt.token_ids == own.encode(own.apply_chat_template([*(row.messages or ())]))
    assert text.encode_plain("ö") == own.encode("ö")
    feed = detokenizers(text.tokenizer)(DetokenizerOptions(), ()).feed
    assert "".join(map(feed, own.encode("ö"))) == "ö"


def test_a_tokenizer_of_ones_own_that_cannot_be_used():
    with pytest.raises(SetupError, match=r"no_such\.module"):
        open_text(
            ModelLoadConfig(TINY_MODEL, tokenizer_module="no_such.module", tokenizer_class="A")
        )
    with pytest.raises(SetupError, match="`tokenizer_module` must be given with tokenizer_class"):
        open_text(ModelLoadConfig(TINY_MODEL, tokenizer_module="examples.my_tokenizer"))
    with pytest.raises(SetupError, match="`tokenizer_module` is not for the back end 'replay'"):
        ReplayBackend(ModelLoadConfig(TINY_MODEL, backend="replay", **OWN))


def test_tools_that_must_not_be_called_are_not_shown():
    shown = request(TRANSCRIPTS["tool_call"])
    for row, is_shown in ((shown, True), (dataclasses.replace(shown, tool_choice="none"), False)):
        text = str(render_conversation(TEXT.render, row, GenerationOptions()))
        assert ("get_weather" in text) is is_shown


def test_a_model_that_is_not_there(monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(
        SetupError, match="'no/such' is not a folder, and cannot be downloaded from the hub"
    ):
        open_text(ModelLoadConfig("no/such"))


def test_a_folder_without_a_tokenizer(tmp_path):
    with pytest.raises(SetupError, match=r"the tokenizer of .* cannot be loaded"):
        open_text(ModelLoadConfig(tmp_path))
