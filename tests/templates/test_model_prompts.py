"""Where a model's chat template is found, and what it renders."""

import pytest
from backedge.base.errors import SetupError
from backedge.templates.chat_template import ModelPrompts, load_template
from backedge.tokenization.model_files import ModelFolder

from tests.support import TINY_MODEL

USER = {"role": "user", "content": "hi"}

# files, --chat-template, the prompt of one message
FOLDERS = [
    (
        {
            "tokenizer_config.json": '{"chat_template": "config",'
            ' "eos_token": {"content": "<|im_end|>"}}'
        },
        None,
        "config",
    ),
    (
        {"tokenizer_config.json": '{"chat_template": [{"name": "default", "template": "named"}]}'},
        None,
        "named",
    ),
    ({"chat_template.json": '{"chat_template": "json"}'}, None, "json"),
    (
        {"chat_template.jinja": "jinja", "chat_template.json": '{"chat_template": "json"}'},
        None,
        "jinja",
    ),
    ({"chat_template.jinja": "jinja", "mine": "flag"}, "mine", "flag"),
]


def folder(tmp_path, files):
    (tmp_path / "tokenizer.json").write_bytes((TINY_MODEL / "tokenizer.json").read_bytes())
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    return tmp_path


@pytest.mark.parametrize(("files", "given", "text"), FOLDERS)
def test_the_template_is_found(tmp_path, files, given, text):
    path = folder(tmp_path, files)
    assert ModelPrompts(path, str(path / given) if given else None).template.render([USER]) == text


@pytest.mark.parametrize(
    ("files", "part"),
    [
        ({}, "--chat-template"),
        ({"chat_template.jinja": "x", "generation_config.json": "{"}, "cannot be used"),
    ],
)
def test_a_folder_that_does_not_do_says_why(tmp_path, files, part):
    with pytest.raises(SetupError, match=part):
        ModelPrompts(folder(tmp_path, files))


def test_a_template_file_that_cannot_be_read_is_named(tmp_path):
    with pytest.raises(SetupError, match=r"missing\.jinja.*No such file.*name a Jinja file"):
        ModelPrompts(folder(tmp_path, {}), str(tmp_path / "missing.jinja"))


def test_templates_write_the_special_tokens(tmp_path):
    (tmp_path / "tokenizer_config.json").write_text(
        '{"bos_token": {"content": "<s>"}, "pad_token": null, "add_bos_token": true}'
    )
    (tmp_path / "chat_template.jinja").write_text(
        "{{ bos_token }}{{ pad_token }}{{ add_bos_token }}"
    )
    assert load_template(ModelFolder(tmp_path)).render([USER]) == "<s>"
