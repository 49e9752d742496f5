"""What vLLM is asked for, and what becomes of its outputs; the real engine runs in tests/e2e."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from backedge.offline import GenerationEngine, GenerationOptions, ModelLoadConfig, Plugin
from backedge.offline.backends import vllm as backend
from backedge.offline.errors import PluginError, UnknownOptionError
from vllm.logprobs import Logprob
from vllm.sampling_params import RequestOutputKind

from tests.offline.batches import LETTERS, ask, letters
from tests.support import TINY_MODEL, encode

TOKENS = encode(LETTERS["output"])


class ScriptedEngine:
    """Gives every request the letters, one token a step, as vLLM's `LLMEngine` does."""

    def __init__(self, refused=()):
        self.running, self.aborted, self.held = {}, [], 0
        self._refused = refused

    def add_request(self, request_id, prompt, params):
        if request_id in self._refused:
            raise ValueError("too long for me")
        self.running[request_id] = [params, 0]
        self.held = max(self.held, len(self.running))

    def abort_request(self, request_ids):
        for request_id in request_ids:
            self.aborted.append(request_id)
            self.running.pop(request_id, None)

    def step(self):
        outputs = []
        for request_id, (params, taken) in list(self.running.items()):
            end = min(taken + 1, len(TOKENS), params.max_tokens)
            finished = end == min(len(TOKENS), params.max_tokens)
            self.running[request_id][1] = end
            if finished:
                del self.running[request_id]
            if params.output_kind == RequestOutputKind.DELTA or finished:
                start = taken if params.output_kind == RequestOutputKind.DELTA else 0
                outputs.append(self._output(request_id, params, TOKENS[start:end], finished))
        return outputs

    def _output(self, request_id, params, token_ids, finished):
        logprobs = None
        if params.logprobs is not None:
            logprobs = [{token_id: Logprob(-0.5, 1)} for token_id in token_ids]
        part = SimpleNamespace(token_ids=token_ids, logprobs=logprobs)
        return SimpleNamespace(request_id=request_id, outputs=[part], finished=finished)


def build_engine(plugins=(), **arguments):
    config = ModelLoadConfig(TINY_MODEL, backend="vllm", engine_args=arguments)
    return GenerationEngine(config, plugins)


@pytest.fixture
def start(monkeypatch):
    """Return an engine around a scripted one."""

    def build(scripted):
        def load(self):
            self.llm = SimpleNamespace(llm_engine=scripted)
            scripted.engine_core = SimpleNamespace(shutdown=lambda: None)

        monkeypatch.setattr(backend.VllmBackend, "load", load)
        return build_engine()

    return build


def test_a_stop_string_ends_the_engines_work(start):
    scripted = ScriptedEngine()
    with start(scripted) as engine:
        [result] = engine.generate_text_batch([letters(0)])
    assert (result.text, result.stop_reason) == (LETTERS["expect"]["content"], "delta, ep")
    assert scripted.aborted[0] == "0-0"
    assert len(result.token_ids) < len(TOKENS)


def test_without_stop_strings_the_tokens_come_at_once(start):
    with start(ScriptedEngine()) as engine:
        [result] = engine.generate_text_batch([letters(0, stop=[], logprobs=1)])
    assert result.token_ids == TOKENS
    assert [entry.logprob for entry in result.logprobs] == [-0.5] * len(TOKENS)


def test_choices_end_apart(start):
    with start(ScriptedEngine()) as engine:
        [result] = engine.generate_text_batch([letters(0, n=3)])
    assert [choice.text for choice in result.choices] == [LETTERS["expect"]["content"]] * 3


def test_a_row_that_the_engine_refuses_fails_alone(start):
    scripted = ScriptedEngine(refused={"1-1"})
    with start(scripted) as engine:
        results = engine.generate_text_batch([letters(number, n=2) for number in range(3)])
    assert [result.error is None for result in results] == [True, False, True]
    assert "vLLM refuses the row: too long for me" in str(results[1].error)
    assert "1-0" in scripted.aborted


def test_no_more_rows_are_held_than_the_bound(start, monkeypatch):
    monkeypatch.setattr(backend, "MAX_HELD_ROWS", 4)
    scripted = ScriptedEngine()
    with start(scripted) as engine:
        results = engine.generate_text_batch([letters(number) for number in range(11)])
    assert len(results) == 11
    assert scripted.held == 4


def test_a_batch_that_is_given_up_ends_the_engines_work(start):
    scripted = ScriptedEngine()
    with start(scripted) as engine:
        results = engine.iterate_text_batch([letters(0), letters(1, stop=[])])
        next(results)
        results.close()
    assert scripted.running == {}


def params(**options):
    seen = []
    with build_engine() as engine:
        prepared = engine._prepare_with("vllm")
        row = prepared.build_row("text", 0, "a", ask("Hi"), GenerationOptions(**options), [])
        seen.append(backend.build_params(row, 1))
    return seen[0]


def test_vllm_gets_tokens_and_no_strings():
    found = params(stop=["x"], stop_token_ids=[7], temperature=0.5, top_k=-1, seed=3)
    assert (found.stop, found.detokenize) == ([], False)
    assert found.stop_token_ids == [7]
    assert (found.temperature, found.top_k, found.seed) == (0.5, 0, 4)
    assert found.output_kind == RequestOutputKind.DELTA
    assert params().output_kind == RequestOutputKind.FINAL_ONLY
    assert params(max_new_tokens=9).max_tokens == 9


class Biased(Plugin):
    name = "biased"

    def logits_processor(self, backend):
        return "module:Class"


def test_a_plugin_that_changes_logits_has_to_be_known_when_vllm_loads():
    with build_engine() as engine, pytest.raises(PluginError, match="when it loads"):
        engine.generate_text_batch([ask("Hi")], plugins=[Biased()])


# arguments, part of the message
BAD_ARGUMENTS = [
    ({"tensor_paralel_size": 2}, "vLLM has no option 'tensor_paralel_size'; did you mean 'tensor_"),
    ({"max_model_len": 9}, "vLLM has no option 'max_model_len'"),
    ({"batch_size": 9}, "vLLM has no option 'batch_size'"),
]


@pytest.mark.parametrize(("arguments", "part"), BAD_ARGUMENTS)
def test_arguments_that_the_installed_version_does_not_take(arguments, part):
    with pytest.raises(UnknownOptionError, match=part):
        build_engine(**arguments)
