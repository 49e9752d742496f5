"""How many processes the pool has."""

import pytest
from backedge.worker.pool.settings import auto_processes


@pytest.mark.parametrize(
    ("cores", "processes"), [(1, 0), (7, 0), (8, 1), (15, 1), (16, 2), (32, 4), (128, 4)]
)
def test_a_process_for_every_eight_cores_and_four_at_most(cores, processes, monkeypatch):
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: set(range(cores)))
    assert auto_processes() == processes
