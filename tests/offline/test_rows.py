"""Sampling: the request's values, then the model's, then the defaults; and a row's result."""

import pytest
from backedge.offline import GenerationOptions, RowError
from backedge.offline.completion import Completion, CompletionSetup, StopPolicy
from backedge.offline.rows import Prompt, Row, resolve_sampling
from backedge.tokenization.detokenizer import detokenizers
from backedge.tokenization.model_files import GenerationConfig

from examples.my_tokenizer import MyTokenizer

MODEL = GenerationConfig(temperature=0.6, top_k=20)


def test_the_request_comes_before_the_model():
    sampling = resolve_sampling(GenerationOptions(temperature=0, top_k=-1, seed=5), MODEL)
    assert (sampling.temperature, sampling.top_k, sampling.seed) == (0, 0, 5)


def test_the_model_comes_before_the_defaults():
    sampling = resolve_sampling(GenerationOptions(), MODEL)
    assert (sampling.temperature, sampling.top_k, sampling.top_p) == (0.6, 20, 1.0)
    assert sampling.repetition_penalty == 1.0


def test_the_defaults():
    sampling = resolve_sampling(GenerationOptions(), GenerationConfig())
    assert (sampling.temperature, sampling.top_k) == (1.0, 0)


def test_a_failed_row_keeps_its_prompt_tokens():
    sampling = resolve_sampling(GenerationOptions(), GenerationConfig())
    row = Row(3, "a", Prompt([1, 2]), sampling, 5, [], list, RowError("generation", "lost"))
    result = row.result("hf")
    assert (result.id, result.index, result.prompt_tokens, result.choices) == ("a", 3, 2, [])
    assert (result.backend, result.error) == ("hf", RowError("generation", "lost"))


def test_a_row_that_could_not_be_prepared():
    row = Row.failed(3, "a", RowError("template", "no"))
    result = row.result("vllm")
    assert (result.id, result.index, result.prompt_tokens) == ("a", 3, 0)
    assert result.error == RowError("template", "no")


@pytest.mark.parametrize("fails_on", ["feed", "result"])
def test_a_tokenizer_that_raises_fails_its_row(fails_on):
    tokenizer = MyTokenizer("")
    setup = CompletionSetup("a", detokenizers(tokenizer), StopPolicy())
    sampling = resolve_sampling(GenerationOptions(), GenerationConfig())
    row = Row(0, "a", Prompt([97]), sampling, 5, [], lambda: [Completion(0, setup)])
    if fails_on == "result":
        row.completions[0].feed([97], ended="length")
        row.completions[0].token_ids.append(999)
    else:
        row.completions[0].feed([97, 999], ended="length")
    result = row.result("hf")
    assert (result.choices, result.finish_reason) == ([], "error")
    assert result.error is not None
    assert result.error.kind == "generation"
    assert "IndexError" in result.error.message
