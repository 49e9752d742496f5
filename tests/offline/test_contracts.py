"""Bad options are refused by name and value, before anything loads."""

import pytest
from backedge.offline import (
    GenerationOptions,
    GenerationResult,
    ModelLoadConfig,
    RowError,
    VlmPreprocessOptions,
)
from backedge.offline.contracts import OptionValueError

# options, name in the message, what is allowed
BAD_OPTIONS = [
    ({"max_new_tokens": 0}, "not 0.", "`max_new_tokens` must be an integer from 1"),
    ({"max_new_tokens": True}, "not True.", "`max_new_tokens` must be an integer"),
    ({"temperature": -1}, "not -1.", "`temperature` must be a number from 0"),
    ({"temperature": float("nan")}, "not nan.", "`temperature` must be a number from 0"),
    ({"temperature": "1"}, "not '1'.", "`temperature` must be a number"),
    ({"top_p": 0}, "not 0.", "`top_p` must be a number above 0"),
    ({"top_p": 1.5}, "not 1.5.", "`top_p` must be a number above 0, at most 1"),
    ({"top_k": 1.5}, "not 1.5.", "`top_k` must be an integer"),
    ({"n": 0}, "not 0.", "`n` must be an integer from 1 to 128"),
    ({"n": None}, "not None.", "`n` must be an integer from 1 to 128"),
    ({"n": 129}, "not 129.", "`n` must be an integer from 1 to 128"),
    ({"stop": [""]}, "not ''.", "`stop` must be one or more non-empty strings"),
    ({"stop": [1]}, "not 1.", "`stop` must be one or more non-empty strings"),
    ({"stop": ["x"] * 1025}, "`stop` has 1,025 strings", "at most 1,024"),
    ({"stop": ["x" * 100_001]}, "`stop` has 100,001 characters", "at most 100,000"),
    ({"stop": 7}, "not 7.", "`stop` must be a string or a list of strings"),
    ({"stop_token_ids": ["a"]}, "not ['a'].", "`stop_token_ids` must be a list of token ids"),
    ({"stop_token_ids": "12"}, "not '12'.", "`stop_token_ids` must be a list of token ids"),
    ({"stop_token_ids": 5}, "not 5.", "`stop_token_ids` must be a list of token ids"),
    ({"logprobs": 21}, "not 21.", "`logprobs` must be an integer from 0 to 20"),
    ({"include_stop": 1}, "not 1.", "`include_stop` must be of type bool"),
    ({"chat_template_kwargs": [1]}, "not [1].", "`chat_template_kwargs` must be a mapping"),
    ({"min_p": 1.5}, "not 1.5.", "`min_p` must be a number from 0 to 1"),
    ({"presence_penalty": -3}, "not -3.", "`presence_penalty` must be a number from -2 to 2"),
    ({"frequency_penalty": "1"}, "not '1'.", "`frequency_penalty` must be a number"),
    ({"min_tokens": -1}, "not -1.", "`min_tokens` must be an integer from 0"),
    ({"min_tokens": 5, "max_new_tokens": 4}, "not 5.", "`min_tokens` must be at most the"),
    ({"ignore_eos": 1}, "not 1.", "`ignore_eos` must be of type bool"),
    ({"logit_bias": {"a": 1}}, "not {'a': 1}.", "`logit_bias` must be an object of token ids"),
    ({"logit_bias": {-1: 1}}, "not {-1: 1}.", "`logit_bias` must be an object of token ids"),
    ({"logit_bias": {1: 101}}, "not {1: 101}.", "and numbers from -100 to 100"),
    ({"logit_bias": {1: float("nan")}}, "not {1: nan}.", "and numbers from -100 to 100"),
    ({"logit_bias": 5}, "not 5.", "`logit_bias` must be an object of token ids"),
    ({"tool_call_parser": "hermes"}, "`message` must be true", "where tool_call_parser"),
]


@pytest.mark.parametrize(("fields", "what", "allowed"), BAD_OPTIONS)
def test_a_bad_option(fields, what, allowed):
    with pytest.raises(OptionValueError) as caught:
        GenerationOptions(**fields)
    assert what in str(caught.value)
    assert allowed in str(caught.value)


BAD_MODELS = [
    ({"model": ""}, "`model` must be"),
    ({"backend": "vlm"}, "`backend` must be one of hf, vllm, sglang, replay, not 'vlm'"),
    ({"fallback_backend": "x"}, "`fallback_backend` must be"),
    ({"max_model_len": 1}, "`max_model_len` must be"),
    ({"engine_args": ["a"]}, "`engine_args` must be"),
    ({"lora": ["a"]}, "`lora` must be a mapping of names to folders"),
    ({"lora": {"a": 5}}, "`lora` must be a mapping of names to folders"),
    ({"postprocess_parsers": "x"}, "`postprocess_parsers` must be one of auto, linear, native"),
    ({"trust_remote_code": "no"}, "`trust_remote_code` must be"),
    ({"vlm": {"max_pixels": 1}}, "`vlm` must be"),
]


@pytest.mark.parametrize(("fields", "what"), BAD_MODELS)
def test_a_bad_configuration(fields, what):
    with pytest.raises(OptionValueError) as caught:
        ModelLoadConfig(**{"model": "m", **fields})
    assert what in str(caught.value)


@pytest.mark.parametrize(
    "fields", [{"max_pixels": 0}, {"min_pixels": -1}, {"max_pixels": 10, "min_pixels": 11}]
)
def test_bad_pixel_budgets(fields):
    with pytest.raises(OptionValueError, match=r"vlm\."):
        VlmPreprocessOptions(**fields)


def test_a_single_stop_string_is_a_list_of_one():
    assert GenerationOptions(stop="END").stop_strings == ["END"]


def test_the_fallback_has_no_arguments_of_the_first_back_end():
    config = ModelLoadConfig(
        "m", backend="vllm", engine_args={"x": 1}, fallback_backend="hf", dtype="float32"
    ).for_fallback()
    assert (config.backend, config.engine_args, config.dtype) == ("hf", {}, "float32")
    assert config.fallback_backend is None


def test_a_failed_row_has_no_text():
    result = GenerationResult(id="a", index=0, backend="hf", error=RowError("image", "no image"))
    assert (result.text, result.raw_text, result.token_ids, result.logprobs) == ("", "", [], None)
    assert (result.finish_reason, result.stop_reason, result.message) == ("error", None, None)
    assert result.completion_tokens == 0
