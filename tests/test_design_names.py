"""Every name on docs/design-names.md exists, and the page has all names of the design."""

from __future__ import annotations

import importlib
import re

import pytest
from backedge.base.errors import SetupError
from backedge.postprocess import Postprocessor, VllmPostProcessor
from backedge.tokenization import TokenizerSelection

from tools.stack import ROOT

NAMES = (
    "generate_text_batch generate_vlm_batch supports_vlm supports_token_ids StoppingCriteria "
    "ModelRuntimeConfig.set_tokenizer_config config.tokenizer_backend create_tokenizer_from_config "
    "sglang vllm new python_module python_class VllmTokenizer create_vllm_tokenizer "
    "VllmPostProcessor TokenizerProtocol BytePairTokenizer RuntimeError"
).split()
PAGE = (ROOT / "docs" / "design-names.md").read_text()
ROWS = [line.strip("|").split(" | ") for line in PAGE.splitlines() if line.startswith("| ")][1:]
PATH = re.compile(r"`((?:backedge|examples)(?:\.\w+)+)")


def find(path: str) -> object:
    """Return the object of a dotted path."""
    names = path.split(".")
    for count in range(len(names), 0, -1):
        try:
            found: object = importlib.import_module(".".join(names[:count]))
        except ModuleNotFoundError:
            continue
        for name in names[count:]:
            found = getattr(found, name)
        return found
    raise ModuleNotFoundError(path)


def test_the_page_has_all_names_of_the_design() -> None:
    listed = {name for design, _ in ROWS for name in re.findall(r"`([\w.]+)", design)}
    assert set(NAMES) == listed


@pytest.mark.parametrize(("design", "package"), ROWS, ids=[row[0].strip() for row in ROWS])
def test_each_name_has_one_that_exists(design: str, package: str) -> None:
    paths = PATH.findall(package)
    assert paths, design
    for path in paths:
        find(path)


def test_a_configuration_is_made_as_in_the_design() -> None:
    assert issubclass(SetupError, RuntimeError)
    assert VllmPostProcessor is Postprocessor
    assert TokenizerSelection.vllm().tokenizer_backend == "vllm"
    assert TokenizerSelection.sglang().tokenizer_backend == "sglang"
    own = TokenizerSelection.new("my_package", "MyTokenizer")
    assert (own.module, own.class_name) == ("my_package", "MyTokenizer")
