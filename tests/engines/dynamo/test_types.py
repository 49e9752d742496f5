"""Dynamo's objects have what our protocols say of them."""

import inspect
from types import SimpleNamespace

import msgspec
import pytest
from backedge.engines.dynamo import types as dynamo_types
from backedge.engines.dynamo.types import read_runtime_config
from backedge.tokenization import tokenizer_selection
from dynamo._core import Context, ModelDeploymentCard, ModelType
from dynamo.frontend.frontend_args import FrontendConfig
from dynamo.llm import ModelRuntimeConfig


def members(protocol):
    return {name for name in vars(protocol) if not name.startswith("_")}


@pytest.mark.parametrize(
    ("protocol", "of_dynamo"),
    [
        (dynamo_types.ModelCard, ModelDeploymentCard),
        (dynamo_types.ModelType, ModelType),
        (dynamo_types.Context, Context),
        (tokenizer_selection.ModelRuntimeConfig, ModelRuntimeConfig),
    ],
)
def test_methods_are_there(protocol, of_dynamo):
    assert members(protocol) <= set(dir(of_dynamo))


def test_flags_are_there():
    declared: set[str] = set()
    for base in inspect.getmro(FrontendConfig):
        declared |= inspect.get_annotations(base).keys()
    assert members(dynamo_types.FrontendConfig) <= declared


def test_a_workers_registration_has_the_fields():
    fields = set(msgspec.structs.asdict(dynamo_types.RuntimeConfig()))
    assert fields <= set(dir(ModelRuntimeConfig))


# registered, context length, parser, text of the worker's card
REGISTERED = [
    ({}, None, None, None),
    ({"context_length": 2048, "runtime_data": {}}, 2048, None, None),
    ({"tool_call_parser": "hermes", "runtime_data": None}, None, "hermes", None),
    ({"runtime_data": {"backedge": "{}", "engine": 1}, "max_num_seqs": 4}, None, None, "{}"),
]


@pytest.mark.parametrize(("registered", "context_length", "parser", "text"), REGISTERED)
def test_what_is_read_of_a_registration(registered, context_length, parser, text):
    config = read_runtime_config(SimpleNamespace(runtime_config=lambda: registered))
    assert (config.context_length, config.tool_call_parser) == (context_length, parser)
    assert (config.runtime_data.worker_card if config.runtime_data else None) == text
