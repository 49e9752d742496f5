"""The engines' own detokenizers: all transcripts have the text that the table gives."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
from backedge.base.errors import SetupError
from backedge.engines.sglang import worker as sglang
from backedge.engines.vllm import worker as vllm
from backedge.parsers.api import native_parsers
from backedge.parsers.base import ParserNames
from backedge.postprocess.delta_builder import aggregate_deltas
from backedge.postprocess.messages import Chunk, Delta
from backedge.postprocess.postprocessor import Postprocessor
from backedge.tokenization.detokenizer import DetokenizerOptions, detokenizers
from backedge.tokenization.tokenizer_selection import TokenizerSelection
from backedge.worker import decoding
from backedge.worker.decoding import build_detokenizers, check_tokenizer

from tests.support import TINY_MODEL, TRANSCRIPTS, Transcript, encode, params, parser_request
from tests.worker import test_engine_worker as test_base

ADAPTERS: dict[str, Any] = {"vllm": vllm, "sglang": sglang}
NAMES = ParserNames("hermes", "qwen3")
SGLANG_NAMES = ParserNames("qwen25", "qwen3")


@cache
def tokenizer(engine: str) -> Any:
    return ADAPTERS[engine].read_tokenizer(str(TINY_MODEL), trust_remote_code=False)


@cache
def factory(engine: str, kind: Any) -> Any:
    return build_detokenizers(kind, ADAPTERS[engine].__name__, tokenizer(engine))


@cache
def parsers(engine: str) -> Any:
    """Return the engine's own parsers."""
    if engine == "vllm":
        return vllm.build_parsers("native", NAMES, tokenizer(engine))
    return native_parsers("sglang", tokenizer(engine), SGLANG_NAMES)


@pytest.mark.parametrize("engine", ADAPTERS)
@pytest.mark.parametrize("name", TRANSCRIPTS)
@pytest.mark.parametrize("skip", [True, False])
def test_the_text_of_a_transcript(engine: str, name: str, skip: bool) -> None:
    token_ids = encode(TRANSCRIPTS[name]["output"])
    prompt = encode("<|im_start|>assistant\n")
    options = DetokenizerOptions(skip_special_tokens=skip)
    native, table = (factory(engine, kind)(options, prompt) for kind in ("native", "table"))
    assert native.feed_all(token_ids) == table.feed_all(token_ids)


@pytest.mark.parametrize("engine", ADAPTERS)
@pytest.mark.parametrize("name", TRANSCRIPTS)
def test_all_of_the_path_is_the_engines(engine: str, name: str) -> None:
    """The engine's parsers give the same for its own detokenizer's text."""
    transcript = TRANSCRIPTS[name]
    native, table = (read_answer(engine, kind, transcript) for kind in ("native", "table"))
    assert native == table
    if name in ("plain_text", "multilingual_text", "reasoning_text"):
        assert native.content == transcript["expect"]["content"]


def read_answer(engine: str, kind: str, transcript: Transcript) -> Delta:
    """Return the whole answer, without the calls' ids, which are random."""
    postprocessor = Postprocessor(
        params(parser=parser_request(transcript)), factory(engine, kind), parsers(engine)
    )
    deltas = []
    for token_id in encode(transcript["output"]):
        deltas += postprocessor.feed(Chunk(token_ids=[token_id]))
    deltas += postprocessor.feed(Chunk(finish_reason="stop"))
    answer = aggregate_deltas(deltas).delta
    for call in answer.tool_calls:
        call.id = None
    return answer


@pytest.mark.parametrize("engine", ADAPTERS)
def test_half_a_character_waits(engine: str) -> None:
    token_ids = encode("世")
    assert len(token_ids) == 3
    feed = factory(engine, "native")(DetokenizerOptions(), []).feed
    assert [feed(token_id) for token_id in token_ids] == ["", "", "世"]


@pytest.mark.parametrize("engine", ADAPTERS)
def test_the_rest_is_the_tokenizers(engine: str) -> None:
    native, table = factory(engine, "native"), detokenizers(tokenizer(engine))
    for token_id in encode("a世<|im_end|>"):
        assert native.token_bytes(token_id) == table.token_bytes(token_id)
        assert native.is_special(token_id) == table.is_special(token_id)


def test_an_engine_without_one_is_refused() -> None:
    with pytest.raises(SetupError, match="only vLLM and SGLang"):
        build_detokenizers("native", decoding.__name__, None)
    with pytest.raises(SetupError, match="only vLLM and SGLang"):
        test_base.ScriptedWorker(detokenizer="native").build()


@pytest.mark.parametrize("backend", ["sglang", "huggingface", "python"])
def test_another_tokenizer_contradicts_it(backend: Any) -> None:
    with pytest.raises(SetupError, match=f"--tokenizer-backend is {backend}"):
        check_tokenizer(TokenizerSelection(backend), "vllm")
    check_tokenizer(TokenizerSelection("vllm"), "vllm")
    check_tokenizer(TokenizerSelection(), "vllm")
