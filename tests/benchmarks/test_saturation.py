"""The summary of `saturation`."""

from __future__ import annotations

import os

from benchmarks.saturation import Sample, pin, summarize
from benchmarks.systems import BACKEDGE_HF, RUST


def test_ours_are_compared_with_rust_of_the_same_kind() -> None:
    rows = list(
        summarize(
            {
                (RUST, True): [Sample(100.0, 1.0, 0.5), Sample(300.0, 1.0, 0.5)],
                (RUST, False): [Sample(400.0, 1.0, 0.5)],
                (BACKEDGE_HF, True): [Sample(160.0, 0.9, 0.5)],
                (BACKEDGE_HF, False): [Sample(300.0, 0.9, 0.5)],
            }
        )
    )
    assert [row.part_of_rust for row in rows] == [1.0, 1.0, 0.8, 0.75]


def test_a_process_is_kept_on_its_cores() -> None:
    before = os.sched_getaffinity(0)
    pin(os.getpid(), sorted(before))
    assert os.sched_getaffinity(0) == before
