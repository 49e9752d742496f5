"""Logprobs before anything changes the logits; a penalty that leaves padding alone."""

from typing import Any

import pytest
import torch
from backedge.engines.transformers.offline_hooks import (
    LogprobRecorder,
    Penalties,
    StepFeeder,
    build_penalties,
    is_out_of_memory,
)
from backedge.offline import GenerationOptions
from backedge.offline.rows import Sampling, resolve_sampling
from backedge.tokenization.model_files import GenerationConfig
from transformers import RepetitionPenaltyLogitsProcessor


def sampling(**options: Any) -> Sampling:
    return resolve_sampling(GenerationOptions(**options), GenerationConfig())


class Sink:
    def __init__(self, end):
        self.finished, self.fed, self._end = False, [], end

    def feed(self, token_ids, logprobs=None, *, stopped_by=None):
        self.fed += token_ids
        self.finished = self._end in token_ids


def test_each_step_is_fed_once_and_ended_rows_are_left_alone():
    sinks: list[Any] = [Sink(5), Sink(6)]
    feeder = StepFeeder(sinks, 2, None)
    ended = [
        feeder(torch.tensor(ids), None).tolist()
        for ids in ([[1, 1, 5], [1, 1, 4]], [[1, 1, 5, 0], [1, 1, 4, 6]])
    ]
    assert ended == [[True, False], [True, True]]
    assert [sink.fed for sink in sinks] == [[5], [4, 6]]


def test_the_chosen_token_is_there_even_if_it_is_not_among_the_best():
    recorder = LogprobRecorder(2)
    scores = torch.log(torch.tensor([[0.5, 0.3, 0.15, 0.05]]))
    assert recorder(torch.tensor([[0]]), scores) is scores
    [found] = recorder.take(torch.tensor([3]))
    assert found.own == pytest.approx([-2.9957], abs=1e-3)
    assert [(entry.token_id, entry.rank) for entry in found.top[0]] == [(0, 1), (1, 2), (3, 4)]


def test_the_penalty_is_that_of_transformers_where_nothing_is_padded():
    torch.manual_seed(0)
    input_ids, scores = torch.randint(0, 9, (3, 5)), torch.randn(3, 9)
    ours = Penalties(sampling(repetition_penalty=1.5), torch.ones(3, 3))(input_ids, scores)
    assert torch.allclose(ours, RepetitionPenaltyLogitsProcessor(1.5)(input_ids, scores))


def test_padding_is_not_penalized():
    scores = torch.ones(1, 4)
    penalty = Penalties(sampling(repetition_penalty=2.0), torch.tensor([[0, 1]]))
    assert penalty(torch.tensor([[0, 1, 2]]), scores).tolist() == [[1.0, 0.5, 0.5, 1.0]]


def test_presence_and_frequency_are_those_of_the_answer():
    """The prompt is a 0 and padding, the answer 2, 2, 1; 3 has a bias."""
    options = sampling(presence_penalty=0.5, frequency_penalty=0.25, logit_bias={"3": 2})
    changed = Penalties(options, torch.tensor([[0, 1]]))
    scores = torch.ones(1, 4)
    assert changed(torch.tensor([[3, 0, 2, 2, 1]]), scores).tolist() == [[1.0, 0.25, 0.0, 3.0]]
    assert scores.tolist() == [[1.0] * 4]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"presence_penalty": 1},
        {"frequency_penalty": -1},
        {"logit_bias": {1: 1}},
        {"min_tokens": 1},
    ],
)
def test_without_penalties_there_is_no_processor(options):
    assert len(build_penalties(sampling(**options), torch.ones(1, 2), [3])) == len(options)


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (torch.OutOfMemoryError("x"), True),
        (MemoryError(), True),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried"), True),
        (RuntimeError("shapes differ"), False),
    ],
)
def test_what_is_out_of_memory(error, expected):
    assert is_out_of_memory(error) is expected


def test_tensors():
    token_ids, mask = torch.tensor([[1, 2]]), torch.tensor([[0, 1]])
    assert token_ids.tolist() == [[1, 2]]
    assert mask.tolist() == [[0, 1]]
