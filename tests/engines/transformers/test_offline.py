"""transformers with the example model: batches, stops, memory, logprobs, sampling."""

from __future__ import annotations

import importlib.util
import json
import re
from typing import Any

import pytest
import torch
import transformers
from backedge.base.errors import SetupError
from backedge.engines.transformers import offline as hf
from backedge.engines.transformers import offline_hooks as hf_hooks
from backedge.offline import GenerationEngine, GenerationOptions, ModelLoadConfig, Plugin
from backedge.offline.contracts import (
    CapabilityError,
    EngineDiedError,
    OptionValueError,
    UnknownOptionError,
)
from backedge.offline.plugins import NoDuplicates

from tests.offline.adapters import make_adapter
from tests.offline.batches import (
    PARSED,
    ask,
    check_batches_in_succession,
    message,
    replay_engine,
    request,
)
from tests.support import TINY_MODEL, TRANSCRIPTS, encode

HELLO = TRANSCRIPTS["plain_text"]
NAMES = (
    "plain_text",
    "multilingual_text",
    "stop_string",
    "tool_call",
    "cut_text",
    "stop_in_reasoning",
)
ROWS = [request(TRANSCRIPTS[name], **PARSED) for name in NAMES]


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def build_engine(plugins=(), **arguments):
    config = ModelLoadConfig(TINY_MODEL, backend="hf", dtype="float32", engine_args=arguments)
    return GenerationEngine(config, plugins)


@pytest.fixture(scope="module")
def engine():
    with build_engine() as loaded:
        yield loaded


def test_transcripts_of_different_lengths_and_options_in_one_batch(engine):
    results = engine.generate_text_batch(ROWS)
    assert [message(result) for result in results] == [
        TRANSCRIPTS[name]["expect"] for name in NAMES
    ]
    assert {result.backend for result in results} == {"hf"}


def test_batches_in_succession():
    with build_engine(batch_size=1) as engine:
        check_batches_in_succession(engine)


def test_a_batch_ends_when_its_last_row_has(engine, monkeypatch):
    """Stop strings end rows, so that nothing goes on until the longest answer."""
    model = engine.backend.model
    steps = []
    forward = model.forward

    def count(**inputs):
        steps.append(1)
        return forward(**inputs)

    monkeypatch.setattr(model, "forward", count)
    rows = [request(TRANSCRIPTS["count"], stop=[stop]) for stop in ("2, ", "4, 5", ", 7")]
    rows = [ask_with_id(row, number) for number, row in enumerate(rows)]
    results = engine.generate_text_batch(rows)
    assert [result.text for result in results] == ["1, ", "1, 2, 3, ", "1, 2, 3, 4, 5, 6"]
    assert len(steps) == max(len(result.token_ids) for result in results)


def ask_with_id(row, number):
    return type(row)(id=str(number), messages=row.messages, options=row.options)


def test_memory_that_does_not_last_halves_the_batch(monkeypatch, caplog):
    with build_engine(batch_size=4) as engine:
        engine.load()
        model = engine.backend.model
        generate, sizes = model.generate, []

        def fail_for_more_than_one(**kwargs):
            sizes.append(len(kwargs["input_ids"]))
            if sizes[-1] > 1:
                raise torch.OutOfMemoryError("CUDA out of memory")
            return generate(**kwargs)

        monkeypatch.setattr(model, "generate", fail_for_more_than_one)
        rows = [ask_with_id(request(HELLO), number) for number in range(5)]
        results = engine.generate_text_batch(rows)
    assert [result.text for result in results] == [HELLO["expect"]["content"]] * 5
    assert sizes == [4, 2, 1, 1, 2, 1, 1, 1]
    assert "the batch is halved to 2 rows" in caplog.text
    assert "the batch is halved to 1 rows" in caplog.text


def test_a_single_row_out_of_memory_fails_alone(monkeypatch):
    with build_engine() as engine:
        engine.load()
        model = engine.backend.model
        generate = model.generate

        def fail_for_long(**kwargs):
            if kwargs["input_ids"].shape[1] > 40:
                raise MemoryError
            return generate(**kwargs)

        monkeypatch.setattr(model, "generate", fail_for_long)
        rows = [ask_with_id(request(HELLO), 0), ask("word " * 50, options=GenerationOptions())]
        good, bad = engine.generate_text_batch(rows)
    assert good.text == HELLO["expect"]["content"]
    assert "out of memory with a prompt of" in str(bad.error)


def test_logprobs_are_those_of_the_model(engine):
    [result] = engine.generate_text_batch([request(HELLO, logprobs=2)])
    model = engine.backend.model
    prompt = engine.backend.open()
    text = prompt.render(HELLO["messages"], None, **HELLO["chat_template_kwargs"])
    ids = prompt.encode(text)
    with torch.inference_mode():
        logits = model(torch.tensor([ids + result.token_ids])).logits[0, len(ids) - 1 : -1]
    expected = torch.log_softmax(logits, -1)
    assert len(result.logprobs) == len(result.token_ids)
    for position, entry in enumerate(result.logprobs):
        own = expected[position, result.token_ids[position]].item()
        assert entry.logprob == pytest.approx(own, abs=1e-3)
        assert len(entry.top_logprobs) == 2


def test_logprobs_of_a_constrained_answer_are_those_of_the_allowed_tokens(engine):
    pytest.importorskip("xgrammar")
    options = GenerationOptions(temperature=0, logprobs=0)
    [result] = engine.generate_text_batch([ask("Hi", options=options, guided_regex="1")])
    assert result.text == "1"
    assert result.logprobs[0].logprob == 0


class LikesCommas(Plugin):
    """Makes a comma the likeliest token, whatever a grammar allows."""

    name = "likes_commas"

    def logits_processor(self, backend):
        [comma] = encode(",")

        def process(input_ids, scores):
            changed = scores.clone()
            changed[:, comma] = 1000
            return changed

        return process


@pytest.mark.parametrize("logprobs", [None, 0])
def test_a_grammar_has_the_last_word_and_is_asked_once_for_each_token(
    engine, monkeypatch, logprobs
):
    xgrammar = pytest.importorskip("xgrammar")
    fills = []

    fill = xgrammar.GrammarMatcher.fill_next_token_bitmask

    def count(*arguments):
        fills.append(arguments)
        return fill(*arguments)

    monkeypatch.setattr(xgrammar.GrammarMatcher, "fill_next_token_bitmask", count)
    options = GenerationOptions(temperature=0, logprobs=logprobs)
    rows = [ask("Hi", guided_regex="[0-9]{9}")]
    [result] = engine.generate_text_batch(rows, options, [LikesCommas()])
    assert re.fullmatch("[0-9]{9}", result.text)
    assert len(fills) == len(result.token_ids) > 5


def test_choices_are_drawn_apart_and_again_by_their_seed(engine):
    options = GenerationOptions(n=3, temperature=2.0, seed=7, max_new_tokens=12)
    first, second = (engine.generate_text_batch([ask("Hi there.")], options) for _ in "12")
    texts = [choice.raw_text for choice in first[0].choices]
    assert texts == [choice.raw_text for choice in second[0].choices]
    assert len(set(texts)) == 3


def test_a_seeded_row_is_the_same_in_any_batch(engine):
    sampling: list[dict[str, Any]] = [
        {"temperature": 1.5, "max_new_tokens": 9},
        {"temperature": 1.0, "top_p": 0.9, "top_k": 20, "max_new_tokens": 6},
    ]
    rows = [
        ask("Hi " * number, options=GenerationOptions(**options, seed=number))
        for number in range(1, 5)
        for options in sampling
    ]
    together = [result.token_ids for result in engine.generate_text_batch(rows)]
    alone = [engine.generate_text_batch([row])[0].token_ids for row in reversed(rows)]
    assert together == alone[::-1]
    assert len({tuple(ids[:4]) for ids in together}) > 4, "they are drawn"


def test_seeds_draw_as_the_probabilities_say():
    scores = torch.tensor([[0.1, 0.2, 0.0, 0.7]]).log()
    counts = [0] * 4
    for seed in range(2000):
        picked = hf_hooks.SeededSampler([seed])(None, scores)
        counts[int(picked.argmax())] += 1
    assert counts[2] == 0
    assert counts == pytest.approx([200, 400, 0, 1400], abs=90)


def test_a_row_that_transformers_rejects_fails_alone(monkeypatch):
    with build_engine(batch_size=8) as engine:
        engine.load()
        model = engine.backend.model
        generate = model.generate

        def fail_for_long(**kwargs):
            if (kwargs["attention_mask"].sum(1) > 60).any():
                raise KeyError("an unknown placeholder")
            return generate(**kwargs)

        monkeypatch.setattr(model, "generate", fail_for_long)
        rows = [ask_with_id(request(HELLO), number) for number in range(7)]
        long = ask("word " * 60, id="long", options=GenerationOptions(temperature=0))
        rows.insert(3, long)
        results = engine.generate_text_batch(rows)
        assert "rejects the row: KeyError: 'an unknown placeholder'" in results[3].error.message
        del results[3]
        assert [result.text for result in results] == [HELLO["expect"]["content"]] * 7

        def lose_device(**kwargs):
            raise RuntimeError("CUDA error: device-side assert triggered")

        monkeypatch.setattr(model, "generate", lose_device)
        with pytest.raises(EngineDiedError, match="the engine died: torch's"):
            engine.generate_text_batch(rows)


class Brief(Plugin):
    """Ends answers after three tokens, with a criterion of transformers."""

    name = "brief"

    def stopping_criterion(self, backend):
        return transformers.MaxLengthCriteria(self.length + 3)

    length = 0


def test_a_plugin_s_criterion_ends_answers():
    plugin = Brief()
    with build_engine([plugin]) as engine:
        [whole] = engine.generate_text_batch([request(HELLO)], plugins=[])
        plugin.length = whole.prompt_tokens
        [brief] = engine.generate_text_batch([request(HELLO)])
    assert brief.token_ids == whole.token_ids[:3]
    assert (brief.finish_reason, brief.stop_reason) == ("stop", "brief")
    with pytest.raises(CapabilityError, match="'stopping', which the back end 'replay' lacks"):
        replay_engine([plugin])


class OnlyComma(Plugin):
    """Lets nothing but commas through."""

    name = "only_comma"

    def logits_processor(self, backend):
        [comma] = encode(",")

        def process(input_ids, scores):
            masked = torch.full_like(scores, float("-inf"))
            masked[:, comma] = 0
            return masked

        return process


def test_a_plugin_changes_logits(engine):
    options = GenerationOptions(max_new_tokens=4)
    batch = engine.iterate_text_batch([ask("Hi")], options, [OnlyComma()])
    engine.iterate_text_batch([ask("Hi")], options)
    [(_, result)] = batch
    assert (result.text, result.finish_reason) == (",,,,", "length")


# arguments, error, part of the message
BAD_ARGUMENTS = [
    ({"atn_implementation": "sdpa"}, UnknownOptionError, "did you mean 'attn_implementation'"),
    ({"revision": "x"}, UnknownOptionError, "the back end 'hf' has no option 'revision'"),
    ({"tensor_parallel_size": 2}, UnknownOptionError, "the back end 'hf' has no option"),
    ({"batch_size": 0}, OptionValueError, "an integer, 1 or more"),
]


@pytest.mark.parametrize(("arguments", "error", "part"), BAD_ARGUMENTS)
def test_bad_arguments_are_refused_before_weights_load(arguments, error, part, monkeypatch):
    monkeypatch.setattr(hf.HfBackend, "load", lambda self: pytest.fail("weights were loaded"))
    with pytest.raises(error, match=part):
        build_engine(**arguments)


def test_weights_that_cannot_be_loaded(tmp_path):
    for name in ("tokenizer.json", "tokenizer_config.json", "config.json", "chat_template.jinja"):
        (tmp_path / name).write_bytes((TINY_MODEL / name).read_bytes())
    config = ModelLoadConfig(tmp_path, backend="hf")
    with (
        GenerationEngine(config) as engine,
        pytest.raises(SetupError, match="transformers cannot load"),
    ):
        engine.generate_text_batch([ask("Hi")])


SCHEMA = {
    "type": "object",
    "properties": {"n": {"type": "integer", "minimum": 0, "maximum": 9}},
    "required": ["n"],
    "additionalProperties": False,
}
JSON_SCHEMA = {"type": "json_schema", "json_schema": {"name": "n", "schema": SCHEMA}}


def test_rows_with_and_without_grammars_in_one_batch(engine):
    rows = [
        ask("Say hello.", response_format=JSON_SCHEMA),
        ask("Say hello."),
        ask("Say hello.", guided_choice=["yes", "no"], options=GenerationOptions(n=2, stop="o")),
        ask("Say hello.", guided_json={"multipleOf": 3}),
        request(TRANSCRIPTS["named_choice"], **PARSED),
    ]
    results = engine.generate_text_batch(rows, GenerationOptions(temperature=0))
    assert 0 <= json.loads(results[0].text)["n"] <= 9
    assert results[1].text == HELLO["expect"]["content"]
    assert {choice.text for choice in results[2].choices} <= {"yes", "n"}
    assert "'multipleOf'" in str(results[3].error)
    assert message(results[4]) == TRANSCRIPTS["named_choice"]["expect"]


class Repeating(Plugin):
    """Leads the model to an object that it has written, and second to a digit."""

    name = "repeating"

    def logits_processor(self, backend):
        tokens = [*encode('[{"a": 1}, {"a": 1'), *encode("}"), *encode("}"), *encode("]")]
        lengths = []

        def process(input_ids, scores):
            lengths.append(input_ids.shape[1])
            scores = torch.full_like(scores, -1000.0)
            scores[:, encode("2")] = 1
            scores[:, tokens[lengths[-1] - lengths[0]]] = 2
            return scores

        return process


def test_a_guard_keeps_the_model_from_an_object_that_it_has_written(engine):
    length = len(encode('[{"a": 1}, {"a": 1')) + 3
    options = GenerationOptions(max_new_tokens=length, temperature=0)
    results = [
        engine.generate_text_batch([ask("Hi")], options, plugins)[0].raw_text
        for plugins in ([Repeating()], [Repeating(), NoDuplicates()])
    ]
    assert results == ['[{"a": 1}, {"a": 1}}]', '[{"a": 1}, {"a": 12}]']


def test_rows_that_are_generated_together_are_yielded_together(engine, monkeypatch):
    """A run that is killed between them would generate the others in another batch."""
    events = []
    model = engine.backend.model
    generate = model.generate

    def record(**given):
        events.append("generated")
        return generate(**given)

    monkeypatch.setattr(model, "generate", record)
    limits = (1, 2, 1)
    rows = [
        ask(
            "Hi", id=str(number), options=GenerationOptions(max_new_tokens=1, stop_token_ids=[stop])
        )
        for number, stop in enumerate(limits)
    ]
    for index, _ in engine.iterate_text_batch(rows):
        events.append(index)
    assert events == ["generated", "generated", 0, 2, 1]
    assert engine.in_windows


def test_rows_that_fail_do_not_wait_for_a_batch(engine):
    rows = [ask("Say hello."), ask("word " * 5000), ask("Say hello."), {"x": 1}]
    found = list(engine.iterate_text_batch(iter(rows), GenerationOptions(max_new_tokens=2)))
    assert [index for index, _ in found] == [1, 3, 0, 2]


def test_grammars_need_xgrammar(monkeypatch):
    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "xgrammar" else found(name)
    )
    row = ask("Hi", guided_choice=["a"])
    expected = r"with guided_choice needs the capability 'guided', .* pip install xgrammar, or use"
    with build_engine() as engine:
        with pytest.raises(CapabilityError, match=expected):
            engine.generate_text_batch([row])
        [(_, result)] = engine.iterate_text_batch(iter([row]))
        assert engine.backend.model is None
    assert "pip install xgrammar" in str(result.error)


def test_adapters_of_rows(tmp_path):
    """One batch has rows with and without adapters; each is as if the model were loaded so."""
    pytest.importorskip("peft")
    folders = {name: make_adapter(tmp_path / name, seed) for seed, name in enumerate("ab")}
    config = ModelLoadConfig(TINY_MODEL, backend="hf", dtype="float32", lora=folders)
    options = GenerationOptions(temperature=0, max_new_tokens=8, ignore_eos=True)
    rows = [ask("Hi", lora=name) for name in (None, "a", "b", "a", None)]
    with GenerationEngine(config) as engine:
        found = [result.token_ids for result in engine.generate_text_batch(rows, options)]
        expected = []
        for name in (None, *folders):
            model = transformers.AutoModelForCausalLM.from_pretrained(TINY_MODEL)
            if name is not None:
                model.load_adapter(str(folders[name]))
            [ids] = model.generate(
                torch.tensor([found_prompt(engine)]),
                max_new_tokens=8,
                do_sample=False,
                eos_token_id=560,
            ).tolist()
            expected.append(ids[-8:])
    plain, first, second = expected
    assert found == [plain, first, second, first, plain]
    assert len({*map(tuple, expected)}) == 3


def found_prompt(engine):
    text = engine.backend.open()
    return text.encode(
        text.render([{"role": "user", "content": "Hi"}], None, enable_thinking=False)
    )


def test_adapters_need_peft(monkeypatch, tmp_path):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(CapabilityError, match="pip install peft"):
        GenerationEngine(ModelLoadConfig(TINY_MODEL, backend="hf", lora={"a": tmp_path}))
