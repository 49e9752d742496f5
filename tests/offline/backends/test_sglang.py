"""What SGLang is asked for, and what becomes of its outputs; the real engine runs in tests/e2e."""

from __future__ import annotations

import asyncio

import pytest
from backedge.offline import GenerationEngine, ModelLoadConfig
from backedge.offline.backends import sglang as backend
from backedge.offline.errors import UnknownOptionError

from tests.offline.batches import LETTERS, letters
from tests.support import TINY_MODEL, encode

TOKENS = encode(LETTERS["output"])


class ScriptedEngine:
    """Gives every request the letters, as SGLang's `Engine` does.

    refused: the ends of request ids that are refused. aborts_itself: SGLang ends the others.
    """

    def __init__(self, refused=(), aborts_itself=False):
        self.loop = asyncio.new_event_loop()
        self.tokenizer_manager = self
        self.aborted, self.asked = set(), []
        self._refused, self._aborts_itself = refused, aborts_itself

    def abort_request(self, request_id):
        self.aborted.add(request_id)

    def shutdown(self):
        self.loop.close()

    async def async_generate(self, *, sampling_params, rid, **asked):
        self.asked.append((sampling_params, asked))
        return self._outputs(sampling_params, rid, asked)

    async def _outputs(self, params, rid, asked):
        await asyncio.sleep(0)
        if rid.endswith(self._refused):
            raise ValueError("too long for me")
        step = min(params["stream_interval"], len(TOKENS))
        for start in range(0, len(TOKENS), step):
            await asyncio.sleep(0)
            if rid in self.aborted or (self._aborts_itself and start > 2):
                yield self._output([], {"type": "abort", "message": "out of blocks"})
                return
            last = start + step >= len(TOKENS)
            yield self._output(TOKENS[start : start + step], {"type": "stop"} if last else None)

    def _output(self, token_ids, reason):
        meta = {
            "finish_reason": reason,
            "output_token_logprobs": [(-0.5, token_id, None) for token_id in token_ids],
            "output_top_logprobs": [[(-0.1, 1, None)] for _ in token_ids],
        }
        return {"output_ids": token_ids, "meta_info": meta}


def build_engine(**arguments):
    config = ModelLoadConfig(TINY_MODEL, backend="sglang", engine_args=arguments)
    return GenerationEngine(config)


@pytest.fixture
def start(monkeypatch):
    """Return an engine around a scripted one."""

    def build(scripted):
        monkeypatch.setattr(
            backend.SglangBackend, "load", lambda self: setattr(self, "_engine", scripted)
        )
        return build_engine()

    return build


def test_a_stop_string_ends_the_engines_work(start):
    scripted = ScriptedEngine()
    with start(scripted) as engine:
        [result] = engine.generate_text_batch([letters(0)])
    assert (result.text, result.stop_reason) == (LETTERS["expect"]["content"], "delta, ep")
    assert len(scripted.aborted) == 1


def test_without_stop_strings_the_tokens_come_at_once(start):
    scripted = ScriptedEngine()
    with start(scripted) as engine:
        [result] = engine.generate_text_batch([letters(0, stop=[], logprobs=1)])
    assert result.token_ids == TOKENS
    assert [entry.logprob for entry in result.logprobs] == [-0.5] * len(TOKENS)
    [(params, asked)] = scripted.asked
    assert params["stream_interval"] > len(TOKENS)
    assert (asked["return_logprob"], asked["top_logprobs_num"]) == (True, 1)
    assert scripted.aborted == set()


def test_sglang_gets_tokens_and_no_strings(start):
    scripted = ScriptedEngine()
    with start(scripted) as engine:
        engine.generate_text_batch([letters(0, stop_token_ids=[7], seed=3, n=2)])
    [(first, _), (second, _)] = scripted.asked
    assert "stop" not in first
    assert set(first["stop_token_ids"]) == {551, 553, 7}
    assert (first["top_k"], first["temperature"], first["stream_interval"]) == (-1, 0, 1)
    assert (first["sampling_seed"], second["sampling_seed"]) == (3, 4)


@pytest.mark.parametrize(
    ("scripted", "part"),
    [
        ({"refused": ("-1-0",)}, "SGLang refuses the row: too long for me"),
        ({"aborts_itself": True}, "SGLang refuses the row: out of blocks"),
    ],
)
def test_a_row_that_the_engine_refuses_fails(start, scripted, part):
    with start(ScriptedEngine(**scripted)) as engine:
        results = engine.generate_text_batch([letters(number) for number in range(2)])
    assert part in str(results[1].error)


def test_a_batch_that_is_given_up_ends_the_engines_work(start):
    scripted = ScriptedEngine()
    with start(scripted) as engine:
        results = engine.iterate_text_batch([letters(0, stop=["al"]), letters(1, stop=["zz"])])
        next(results)
        results.close()
    assert len(scripted.aborted) == 2


# arguments, part of the message
BAD_ARGUMENTS = [
    ({"attention_backnd": "x"}, "SGLang has no option 'attention_backnd'; did you mean 'attention"),
    ({"skip_tokenizer_init": False}, "SGLang has no option 'skip_tokenizer_init'"),
]


@pytest.mark.parametrize(("arguments", "part"), BAD_ARGUMENTS)
def test_arguments_that_the_installed_version_does_not_take(arguments, part):
    with pytest.raises(UnknownOptionError, match=part):
        build_engine(**arguments)
