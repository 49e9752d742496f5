"""Prompts by a user's tokenizer class."""

from backedge.templates.chat_template import ModelPrompts
from backedge.templates.python_prompts import PythonPrompts
from backedge.tokenization import load

from tests.support import TINY_MODEL

FILES = ModelPrompts(TINY_MODEL)


def test_a_tokenizer_of_the_users_takes_the_models_template():
    tokenizer = load("tests.engines.frontends.edge_tokenizer", "Wrapped", str(TINY_MODEL))
    files = PythonPrompts(tokenizer, TINY_MODEL)
    messages = [{"role": "user", "content": "hi"}]
    asked = files.prompt_token_ids(messages, None, model="m")
    assert asked == FILES.prompt_token_ids(messages, None)
    assert files.eos_token_ids == FILES.eos_token_ids


def test_a_tokenizer_that_makes_prompts_only_is_enough(tmp_path):
    tokenizer = load("tests.tokenization.bad_modules", "PromptsOnly", str(TINY_MODEL))
    files = PythonPrompts(tokenizer, TINY_MODEL)
    messages = [{"role": "user", "content": "hi"}]
    assert files.prompt_token_ids(messages, None, model="m") == [1, 1, 0]
    assert files.encode("hi") == FILES.encode("hi"), "the model's own tokenizer knows its tokens"
    assert files.eos_token_ids == FILES.eos_token_ids
    config = (TINY_MODEL / "tokenizer_config.json").read_bytes()
    (tmp_path / "tokenizer_config.json").write_bytes(config)
    assert PythonPrompts(tokenizer, tmp_path).eos_token_ids == []
