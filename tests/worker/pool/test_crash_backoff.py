"""What dies again and again waits longer each time, and not for ever."""

import pytest
from backedge.worker.pool.crash_backoff import FIRST_DELAY_S, QUIET_S, CrashBackoff


@pytest.mark.parametrize("free", [0, 1, 4])
def test_the_wait_doubles_after_the_free_deaths(free):
    backoff = CrashBackoff(free, 5.0)
    found = [backoff.count(0.0) for _ in range(free + 100)]
    assert found[: free + 3] == [0.0] * free + [
        FIRST_DELAY_S,
        2 * FIRST_DELAY_S,
        4 * FIRST_DELAY_S,
    ]
    assert found[-1] == max(found) == 5.0


def test_after_a_quiet_time_it_begins_anew():
    backoff = CrashBackoff(1, 5.0)
    assert [backoff.count(now) for now in (0.0, 1.0, 2.0)] == [0.0, 0.1, 0.2]
    assert backoff.count(2.5 + QUIET_S) == 0.0


def test_the_longest_wait_does_not_count_as_quiet():
    backoff, now = CrashBackoff(0, 30.0), 0.0
    for _ in range(50):
        now += backoff.count(now)
    assert backoff.count(now) == 30.0


def test_thousands_of_deaths_are_counted():
    backoff = CrashBackoff(0, 5.0)
    assert {backoff.count(0.0) for _ in range(2000)} >= {5.0}
