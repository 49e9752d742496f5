"""Code that does not end is stopped, and no other code."""

import random
import threading
import time
from pathlib import Path

import pytest
from backedge.templates.time_limit import call_with_time_limit


def spin(seconds=float("inf")):
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass
    return "spun"


def nap():
    time.sleep(0.2)
    return "slept"


def stubborn():
    while True:
        try:
            spin()
        except Exception:  # noqa: BLE001, S112 - what code of strangers may do
            continue


@pytest.mark.parametrize("endless", [spin, stubborn])
def test_what_does_not_end_is_stopped(endless):
    with pytest.raises(TimeoutError, match="stopped after"):
        call_with_time_limit(0.05, endless)


def test_what_ends_gives_its_result():
    assert call_with_time_limit(10.0, lambda: "result") == "result"


def test_what_fails_fails_as_it_did():
    with pytest.raises(ZeroDivisionError):
        call_with_time_limit(10.0, lambda: 1 // 0)


def test_a_limit_that_is_about_to_expire_hits_nothing_but_its_own_code():
    outcomes = []

    def many():
        for _ in range(200):
            try:
                outcomes.append(call_with_time_limit(0.001, lambda: spin(random.random() * 0.002)))
            except TimeoutError:
                outcomes.append("stopped")

    threads = [threading.Thread(target=many) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    assert len(outcomes) == 800
    assert set(outcomes) == {"spun", "stopped"}


class Slow:
    """Its destructor loses an exception that comes while it runs."""

    def __del__(self):
        spin(0.2)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_exception_that_a_destructor_loses_is_waited_for_by_nobody():
    def lose(then):
        Slow()
        return then()

    assert call_with_time_limit(0.05, lambda: lose(lambda: "result")) == "result"
    with pytest.raises(TimeoutError, match="stopped after"):
        call_with_time_limit(0.05, lambda: lose(spin))
    assert spin(0.5) == "spun"  # nothing comes later


def test_time_that_others_take_does_not_count_as_cpu_time():
    assert call_with_time_limit(0.05, nap, counts_cpu=True) == "slept"
    with pytest.raises(TimeoutError, match="stopped after"):
        call_with_time_limit(0.05, spin, counts_cpu=True)


def test_a_limit_within_another_leaves_the_stop_to_it():
    with pytest.raises(TimeoutError, match=r"stopped after 0\.1 s"):
        call_with_time_limit(0.1, lambda: call_with_time_limit(0.1001, spin))
    assert call_with_time_limit(10.0, lambda: spin(0.2)) == "spun"


def test_short_calls_do_not_wake_the_watch_each_time():
    call_with_time_limit(10.0, int)
    watch = next(one for one in threading.enumerate() if one.name == "backedge-time-limits")
    status = Path(f"/proc/self/task/{watch.native_id}/status")

    def count_waits():
        return int(status.read_text().partition("\nvoluntary_ctxt_switches:")[2].split()[0])

    before = count_waits()
    for _ in range(300):
        call_with_time_limit(10.0, int)
        time.sleep(0.001)
    assert count_waits() - before < 100
