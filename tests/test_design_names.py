"""Every name on docs/design-names.md exists, and the page has all names of the design."""

from __future__ import annotations

import importlib
import re
from types import SimpleNamespace
from typing import Any

import pytest
from backedge import tokenization
from backedge.base.errors import SetupError
from backedge.offline import (
    GenerationEngine,
    GenerationOptions,
    ModelLoadConfig,
    TextGenerationRequest,
    VlmGenerationRequest,
)
from backedge.postprocess import (
    Chunk,
    Postprocessor,
    PostprocessParams,
    VllmPostProcessor,
    postprocessor,
)
from backedge.tokenization import TokenizerSelection
from tokenizers import Tokenizer

from tests.support import TINY_MODEL
from tools.stack import ROOT

NAMES = (
    "generate_text_batch generate_vlm_batch supports_vlm supports_token_ids StoppingCriteria "
    "ModelRuntimeConfig.set_tokenizer_config config.tokenizer_backend create_tokenizer_from_config "
    "sglang vllm new python_module python_class VllmTokenizer create_vllm_tokenizer "
    "VllmPostProcessor TokenizerProtocol BytePairTokenizer RuntimeError "
    "config.tokenizer_python_module config.tokenizer_python_class dynamo.common.tokenizers "
    "process_tokens KvPushRouter stop_policy hf_backend vllm_backend sglang_backend preprocess"
).split()
PAGE = (ROOT / "docs" / "design-names.md").read_text()
ROWS = [line.strip("|").split(" | ") for line in PAGE.splitlines() if line.startswith("| ")][1:]
MODULE = "examples.byte_pair_tokenizer"
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


def test_a_configuration_is_used_as_in_the_design() -> None:
    assert issubclass(SetupError, RuntimeError)
    assert TokenizerSelection.vllm().tokenizer_backend == "vllm"
    assert TokenizerSelection.sglang().tokenizer_backend == "sglang"
    own = TokenizerSelection.new(MODULE, "BytePairTokenizer")
    written: dict[str, str] = {}
    runtime_config = SimpleNamespace(set_engine_specific=written.__setitem__, runtime_data=written)
    arguments = {"python_module": MODULE, "python_class": "BytePairTokenizer"}
    tokenization.set_tokenizer_config(runtime_config, "python", **arguments)
    found = tokenization.read_tokenizer_config(runtime_config)
    assert found == own
    assert (found.tokenizer_backend, found.tokenizer_python_module) == ("python", MODULE)
    assert found.tokenizer_python_class == "BytePairTokenizer"
    tokenizer: Any = tokenization.create_tokenizer_from_config(found, TINY_MODEL)
    assert tokenizer.decode(tokenizer.encode("Hello")) == "Hello"


def test_a_tokenizer_is_derived_as_in_the_design() -> None:
    class Prompts(tokenization.TokenizerProtocol):
        def tokenize(self, messages: Any, model: Any = None, tools: Any = None) -> list[int]:
            return [len(messages)]

    with pytest.raises(TypeError, match="tokenize"):
        type("Without", (tokenization.TokenizerProtocol,), {})()
    assert Prompts().tokenize([{}, {}]) == [2]
    assert tokenization.create_vllm_tokenizer is tokenization.VllmTokenizer


def test_tokens_are_processed_as_in_the_design() -> None:
    assert VllmPostProcessor is Postprocessor
    tokenizer = Tokenizer.from_file(str(TINY_MODEL / "tokenizer.json"))
    post = postprocessor(
        PostprocessParams(response_id="r", created=0, model="m", prompt_length=0), tokenizer
    )
    ids = tokenizer.encode("Hello").ids
    sent = [
        *post.feed(Chunk(index=0, token_ids=ids)),
        *post.feed(Chunk(index=0, token_ids=[], finish_reason="length")),
    ]
    assert "".join(out.delta.content or "" for out in sent) == "Hello"


def test_batches_are_generated_as_in_the_design() -> None:
    conversation = [{"role": "user", "content": "Say hello."}]
    with GenerationEngine(ModelLoadConfig(str(TINY_MODEL), backend="replay")) as engine:
        assert (engine.backend.supports_vlm, engine.backend.supports_token_ids) == (False, True)
        options = GenerationOptions(chat_template_kwargs={"enable_thinking": False})
        [result] = engine.generate_text_batch(
            [TextGenerationRequest(messages=conversation)], options
        )
        assert result.text
        with pytest.raises(RuntimeError, match="replay"):
            engine.generate_vlm_batch(
                [VlmGenerationRequest(messages=conversation, image=str(TINY_MODEL))]
            )
