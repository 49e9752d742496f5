"""The small files in a model's folder, as they are read."""

import json

import pytest
from backedge.base.errors import SetupError
from backedge.tokenization.model_files import ModelFolder, load_tokenizer_json, read_vocabulary_size

from tests.support import TINY_MODEL

FILES = ModelFolder(TINY_MODEL, load_tokenizer_json(TINY_MODEL).token_to_id)
IMAGES = {"text_config": {"eos_token_id": 5, "max_position_embeddings": 100}}


def test_without_a_tokenizer_the_other_ways_are_named(tmp_path):
    with pytest.raises(SetupError, match="choose vllm or sglang"):
        load_tokenizer_json(tmp_path)


def test_ends_of_sequence():
    assert (FILES.eos_token_ids, FILES.further_eos_token_ids, FILES.context_length) == (
        [553],
        [553, 551],
        2048,
    )


# generation_config.json, config.json, end-of-sequence tokens, context length
CONFIGS = [
    ({}, {}, [], None),
    ({"eos_token_id": 1}, {"eos_token_id": 2}, [1], None),
    ({"eos_token_id": [1, 2]}, {}, [1, 2], None),
    ({}, {"eos_token_id": 2, "max_position_embeddings": 10}, [2], 10),
    ({"eos_token_id": None}, {"eos_token_id": 2}, [], None),
    ({}, IMAGES, [5], 100),
    ({}, {**IMAGES, "eos_token_id": None, "max_position_embeddings": 10}, [], 10),
    ({}, {"text_config": None, "eos_token_id": 2}, [2], None),
]


@pytest.mark.parametrize(("generation", "config", "eos", "length"), CONFIGS)
def test_end_of_sequence_and_context_length(tmp_path, generation, config, eos, length):
    (tmp_path / "generation_config.json").write_text(json.dumps(generation))
    (tmp_path / "config.json").write_text(json.dumps(config))
    model = ModelFolder(tmp_path)
    assert (model.eos_token_ids, model.further_eos_token_ids) == (eos, eos)
    assert model.context_length == length


def test_the_tokenizers_end_of_sequence_goes_first(tmp_path):
    (tmp_path / "config.json").write_text('{"eos_token_id": 2}')
    (tmp_path / "special_tokens_map.json").write_text('{"eos_token": "<map>"}')
    assert ModelFolder(tmp_path, token_id={"<map>": 7}.get).eos_token_ids == [7]
    (tmp_path / "tokenizer_config.json").write_text('{"eos_token": {"content": "<config>"}}')
    model = ModelFolder(tmp_path, token_id={"<map>": 7, "<config>": 8}.get)
    assert (model.eos_token_ids, model.further_eos_token_ids) == ([8], [2])


def test_defaults_of_sampling(tmp_path):
    text = '{"temperature": 0.5, "top_k": 20, "transformers_version": "5"}'
    (tmp_path / "generation_config.json").write_text(text)
    config = ModelFolder(tmp_path).generation_config
    assert (config.temperature, config.top_k, config.top_p) == (0.5, 20, None)
    (tmp_path / "generation_config.json").write_text('{"temperature": "hot"}')
    with pytest.raises(SetupError, match=r"generation_config.json cannot be used: .*temperature"):
        ModelFolder(tmp_path)


@pytest.mark.parametrize(
    ("config", "size"),
    [
        ('{"vocab_size": 7}', 7),
        ('{"text_config": {"vocab_size": 7}}', 7),
        ('{"vocab_size": 8, "text_config": {"vocab_size": 7}}', 8),
        ("{}", None),
        ('{"vocab_size": "x"}', None),
        ("no json", None),
        (None, None),
    ],
)
def test_the_size_of_the_vocabulary(tmp_path, config, size):
    if config is not None:
        (tmp_path / "config.json").write_text(config, encoding="utf-8")
    assert read_vocabulary_size(tmp_path) == size


def test_the_workers_context_counts_before_the_models(tmp_path):
    (tmp_path / "config.json").write_text('{"max_position_embeddings": 7}', encoding="utf-8")
    assert ModelFolder(tmp_path).prompt_limit.context_length == 7
    assert ModelFolder(tmp_path, context_length=5).prompt_limit.context_length == 5
