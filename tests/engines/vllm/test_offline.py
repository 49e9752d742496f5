"""What vLLM alone is asked for; `test_engines` has what SGLang does as well."""

from __future__ import annotations

import pytest
from backedge.engines.vllm import offline
from backedge.offline import GenerationOptions, ModelLoadConfig, Plugin
from backedge.offline.contracts import PluginError
from vllm.sampling_params import RequestOutputKind

from tests.engines.offline.scripted_engines import build_engine, start
from tests.offline.batches import ask
from tests.support import TINY_MODEL

CHUNKED = "enable_chunked_prefill"


@pytest.fixture
def params(monkeypatch):
    """Return what gives vLLM's parameters of the second choice of a request."""

    def find(fields=(), **options):
        engine, scripted = start(monkeypatch, "vllm")
        with engine:
            engine.generate_text_batch(
                [ask("Hi", **dict(fields))], GenerationOptions(n=2, **options)
            )
        return scripted.asked[1]

    return find


def test_vllm_gets_tokens_and_no_strings(params):
    found = params(stop=["x"], stop_token_ids=[7], temperature=0.5, top_k=-1, seed=3)
    assert (found.stop, found.detokenize) == ([], False)
    assert found.stop_token_ids == [7]
    held = params({"guided_regex": "a,b"}, stop_token_ids=[7])
    # xgrammar would refuse a stop token that the grammar needs.
    assert (held.stop_token_ids, held.output_kind) == ([], RequestOutputKind.DELTA)
    assert (found.temperature, found.top_k, found.seed) == (0.5, 0, 4)
    assert found.output_kind == RequestOutputKind.DELTA
    assert params().output_kind == RequestOutputKind.FINAL_ONLY
    assert params(max_new_tokens=9).max_tokens == 9


def test_vllm_gets_all_that_a_row_may_say(params):
    options = {"presence_penalty": 1, "frequency_penalty": 0.5, "min_p": 0.1, "min_tokens": 2}
    found = params(temperature=1, **options, logit_bias={"7": 1}, ignore_eos=True)
    assert {name: getattr(found, name) for name in options} == options
    assert (found.logit_bias, found.ignore_eos) == ({7: 1.0}, True)


class Biased(Plugin):
    name = "biased"

    def logits_processor(self, backend):
        return "module:Class"


def test_a_plugin_that_changes_logits_has_to_be_known_when_vllm_loads():
    with build_engine("vllm") as engine, pytest.raises(PluginError, match="when it loads"):
        engine.generate_text_batch([ask("Hi")], plugins=[Biased()])


def test_a_plugin_that_changes_logits_is_in_all_batches():
    with (
        build_engine("vllm", [Biased()]) as engine,
        pytest.raises(PluginError, match="which vLLM does in all batches"),
    ):
        engine.generate_text_batch([ask("Hi")], plugins=[])


@pytest.mark.parametrize(("arguments", "expected"), [({}, False), ({CHUNKED: True}, True)])
def test_on_a_cpu_prompts_are_read_whole(monkeypatch, arguments, expected):
    given: dict[str, object] = {}
    monkeypatch.setattr("vllm.LLM", lambda **options: given.update(options))
    monkeypatch.setattr(offline, "start_engine", lambda load, _: load())
    monkeypatch.setattr("vllm.platforms.current_platform.is_cpu", lambda: True)
    config = ModelLoadConfig(TINY_MODEL, backend="vllm", engine_args=arguments)
    offline.VllmBackend(config).load()
    assert given[CHUNKED] is expected
