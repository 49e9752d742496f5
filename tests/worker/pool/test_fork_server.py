"""The fork server may end, or never start."""

import os
import signal

import pytest
from backedge.base.errors import SetupError

from tests.worker.pool.pools import WORDS, fork_server_pid, in_pool, stream


def test_the_fork_server_may_be_killed_too():
    async def test(pool):
        os.kill(fork_server_pid(), signal.SIGKILL)
        os.kill(pool.pids[0], signal.SIGKILL)
        return await stream(pool, WORDS, pause_s=0.01)

    whole, failures = in_pool(test, processes=1)
    assert (whole.delta.content, failures) == (WORDS, [])


def test_a_pool_that_cannot_start_says_so():
    async def test(pool):
        return None

    with pytest.raises(SetupError, match="fork server of --postprocess-workers ended"):
        in_pool(test, build="tests.worker.pool.pool_parts:broken")
