"""The reserved names are the arguments and functions that chat templates are rendered with."""

import inspect

from backedge.templates.chat_template import RESERVED, ChatTemplate
from backedge.templates.environment import create_environment
from backedge.tokenization.mistral import MistralTokenizer
from jinja2.defaults import DEFAULT_NAMESPACE
from transformers import PreTrainedTokenizerBase
from transformers.utils import chat_template_utils
from vllm.renderers import hf

# What a request may set although it is an argument: variables of templates, or model settings.
VARIABLES = {"documents", "template_kwargs", "reasoning_effort"}
FUNCTIONS = [
    PreTrainedTokenizerBase.apply_chat_template,
    chat_template_utils.render_jinja_template,
    chat_template_utils._render_with_assistant_indices,
    hf.safe_apply_chat_template,
    ChatTemplate.render,
    MistralTokenizer.tokenize,
]


def test_arguments_of_the_rendering_functions():
    names = {name for function in FUNCTIONS for name in inspect.signature(function).parameters}
    assert names - VARIABLES - {"template_kwargs"} <= RESERVED


def test_functions_of_templates():
    assert {*create_environment().globals, *DEFAULT_NAMESPACE} <= RESERVED


def test_what_chat_templates_read_is_not_reserved():
    for name in ("enable_thinking", "thinking", "reasoning_effort", "documents", "bos_token"):
        assert name not in RESERVED
