"""Bad options are refused by name and value, before anything loads."""

import pytest
from backedge.offline import (
    GenerationOptions,
    GenerationResult,
    ModelLoadConfig,
    RowError,
    TextGenerationRequest,
    VlmPreprocessOptions,
)
from backedge.offline.errors import OptionValueError, UnknownOptionError

# class, misspelt keyword, what the message says
MISSPELT = [
    (GenerationOptions, "temprature", "did you mean 'temperature'?"),
    (GenerationOptions, "max_tokens", "did you mean 'max_new_tokens'?"),
    (GenerationOptions, "stop_ids", "did you mean 'stop_token_ids'?"),
    (TextGenerationRequest, "message", "did you mean 'messages'?"),
    (VlmPreprocessOptions, "maxpixels", "did you mean 'max_pixels'?"),
    (VlmPreprocessOptions, "qqq", "known: do_resize, max_pixels, min_pixels"),
]


@pytest.mark.parametrize(("cls", "name", "part"), MISSPELT)
def test_a_misspelt_option_is_answered_with_the_nearest(cls, name, part):
    with pytest.raises(UnknownOptionError) as caught:
        cls.from_mapping({name: 1})
    assert str(caught.value).startswith(f"{cls.__name__} has no option {name!r}; {part}")


def test_a_misspelt_option_of_the_model():
    with pytest.raises(UnknownOptionError, match="did you mean 'revision'"):
        ModelLoadConfig.from_mapping({"model": "m", "revison": "x"})


# options, name in the message, what is allowed
BAD_OPTIONS = [
    ({"max_new_tokens": 0}, "max_new_tokens is 0", "an integer, from 1"),
    ({"max_new_tokens": True}, "max_new_tokens is True", "an integer"),
    ({"temperature": -1}, "temperature is -1", "a number, from 0"),
    ({"temperature": float("nan")}, "temperature is nan", "a number, from 0"),
    ({"temperature": "1"}, "temperature is '1'", "a number"),
    ({"top_p": 0}, "top_p is 0", "above 0"),
    ({"top_p": 1.5}, "top_p is 1.5", "from 0 to 1"),
    ({"top_k": 1.5}, "top_k is 1.5", "an integer"),
    ({"n": 0}, "n is 0", "from 1 to 128"),
    ({"n": None}, "n is None", "from 1 to 128"),
    ({"n": 129}, "n is 129", "from 1 to 128"),
    ({"stop": [""]}, "stop is ''", "strings that are not empty"),
    ({"stop": [1]}, "stop is 1", "strings that are not empty"),
    ({"stop": ["x"] * 1025}, "stop is '1025 strings'", "up to 1024"),
    ({"stop": ["x" * 100_001]}, "stop is '100001 characters'", "up to 100000"),
    ({"stop": 7}, "stop is 7", "a string or a list of strings"),
    ({"stop_token_ids": ["a"]}, "stop_token_ids is ['a']", "a list of token ids"),
    ({"stop_token_ids": "12"}, "stop_token_ids is '12'", "a list of token ids"),
    ({"stop_token_ids": 5}, "stop_token_ids is 5", "a list of token ids"),
    ({"logprobs": 21}, "logprobs is 21", "from 0 to 20"),
    ({"include_stop": 1}, "include_stop is 1", "bool"),
    ({"chat_template_kwargs": [1]}, "chat_template_kwargs is [1]", "a mapping"),
    ({"tool_call_parser": "hermes"}, "message is False", "True where tool_call_parser"),
]


@pytest.mark.parametrize(("fields", "what", "allowed"), BAD_OPTIONS)
def test_a_bad_option(fields, what, allowed):
    with pytest.raises(OptionValueError) as caught:
        GenerationOptions(**fields)
    assert what in str(caught.value)
    assert allowed in str(caught.value)


BAD_MODELS = [
    ({"model": ""}, "model is ''"),
    ({"backend": "vlm"}, "backend is 'vlm'; allowed: hf, vllm, sglang, replay"),
    ({"fallback_backend": "x"}, "fallback_backend is 'x'"),
    ({"max_model_len": 1}, "max_model_len is 1"),
    ({"engine_args": ["a"]}, "engine_args is"),
    ({"trust_remote_code": "no"}, "trust_remote_code is 'no'"),
    ({"vlm": {"max_pixels": 1}}, "vlm is"),
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
