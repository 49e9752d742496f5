"""The stand-in has nothing that the released TensorRT-LLM has not.

`signatures.json` holds the names and parameters of the release's sources, as far as Dynamo's worker
and Backedge use them.
"""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import tensorrt_llm
from backedge.engines.trtllm import parsers as trtllm
from backedge.engines.trtllm.worker import ENGINE
from backedge.parsers.native.call_items import CallItem
from tensorrt_llm.llmapi.reasoning_parser import ReasoningParserFactory
from tensorrt_llm.serve.tool_parser.tool_parser_factory import ToolParserFactory

RELEASED: dict[str, Any] = json.loads(
    Path(__file__).with_name("signatures.json").read_text(encoding="utf-8")
)
PARAMETERS: dict[str, list[str]] = RELEASED["parameters"]
FIELDS: dict[str, list[str]] = RELEASED["fields"]


def find(name: str) -> Any:
    """Return what `module:path` names in the stand-in, None if it has nothing of that name."""
    module, _, path = name.partition(":")
    found: Any = importlib.import_module(f"tensorrt_llm.{module}")
    for part in path.split("."):
        found = getattr(found, part, None)
    return found


def is_part(given: Sequence[str], whole: Sequence[str]) -> bool:
    """Whether all of `given` are in `whole`, in the same order."""
    rest = iter(whole)
    return all(name in rest for name in given)


@pytest.mark.parametrize("name", PARAMETERS)
def test_functions_take_what_the_released_ones_take(name: str) -> None:
    function = find(name)
    if function is not None:
        assert is_part([*inspect.signature(function).parameters], PARAMETERS[name])


@pytest.mark.parametrize("name", FIELDS)
def test_fields_are_released_ones(name: str) -> None:
    assert read_fields(find(name)) <= set(FIELDS[name])


def read_fields(members: Any) -> set[str]:
    """Return the public fields of a class."""
    if dataclasses.is_dataclass(members):
        return {field.name for field in dataclasses.fields(members)}
    fields = getattr(members, "model_fields", None)
    return set(fields or re.findall(r"self\.([a-z]\w*)(?:: .*)? = ", inspect.getsource(members)))


def test_everything_in_the_stand_in_is_compared() -> None:
    compared = {*PARAMETERS, *FIELDS, *RELEASED["names only"]}
    members = {
        f"{module}:{member.__name__}"
        for module, found in tensorrt_llm.MODULES.items()
        for member in found
    }
    owners = {name.rpartition(".")[0] for name in PARAMETERS}
    assert members - compared - owners == set()


@pytest.mark.parametrize("kind", ["tool", "reasoning"])
def test_parsers_have_the_released_form(kind: str) -> None:
    released = RELEASED["parsers"][kind]
    parser: Any = (
        ToolParserFactory.create_tool_parser("qwen3")
        if kind == "tool"
        else ReasoningParserFactory.create_reasoning_parser("qwen3")
    )
    for name, parameters in released.items():
        member = getattr(parser, name)
        if parameters is not None:
            assert ["self", *inspect.signature(member).parameters] == parameters


# What Backedge uses of TensorRT-LLM's objects, by its own types of them.
USED = [
    (trtllm.ToolParser, RELEASED["parsers"]["tool"]),
    (trtllm.ReasoningParser, RELEASED["parsers"]["reasoning"]),
    (trtllm.ToolStep, FIELDS["serve.tool_parser.core_types:StreamingParseResult"]),
    (CallItem, FIELDS["serve.tool_parser.core_types:ToolCallItem"]),
    (trtllm.ReasoningStep, FIELDS["llmapi.reasoning_parser:ReasoningParserResult"]),
]


@pytest.mark.parametrize(("used", "released"), USED, ids=[used.__name__ for used, _ in USED])
def test_backedge_uses_released_names_only(used: type, released: Any) -> None:
    public = {name for name in {*vars(used), *used.__annotations__} if name[0] != "_"}
    assert public
    assert public <= set(released)


def test_the_release_is_the_one_that_the_adapter_supports() -> None:
    supported = ENGINE.versions["1.6"]
    assert RELEASED["release"] == supported
    assert tensorrt_llm.__version__.startswith(f"{supported}.")
