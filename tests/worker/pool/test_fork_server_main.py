"""The fork server's program: it and its processes end with the main process."""

import os
import subprocess
import sys
import time
from pathlib import Path

from tests.worker.pool.pools import fork_server_pid

MAIN = """
import asyncio, sys
sys.path[:0] = ["."]
from backedge.postprocess import Chunk
from backedge.postprocess.settings import PostprocessSettings
from backedge.worker.backend import NewRequest
from backedge.worker.pool import PoolSupervisor, PoolSettings
from tests.support import encode, params

async def main():
    pool = PoolSupervisor(PoolSettings(
        processes=2, build="tests.worker.pool.pool_parts:build", arguments={},
        parsers_name="x", postprocess=PostprocessSettings(deadline_s=60.0),
    ))
    await pool.ready()
    request = pool.start(NewRequest(params(), [], 0.0))
    for token_id in encode("LOOP"):
        request.add(Chunk(token_ids=[token_id]), 0.0)
    await asyncio.sleep(0.3)
    print(*pool.pids, flush=True)
    await asyncio.sleep(60)

asyncio.run(main())
"""


def test_nothing_outlives_the_main_process_although_a_parser_loops(tmp_path):
    words, env = [sys.executable, "-c", MAIN], {**os.environ, "TMPDIR": str(tmp_path)}
    main = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=env)
    assert main.stdout is not None
    pids = [*main.stdout.readline().split(), str(fork_server_pid(main.pid))]
    [folder] = tmp_path.iterdir()
    main.kill()
    main.communicate()
    until = time.monotonic() + 10
    while time.monotonic() < until and (folder.exists() or any(map(is_alive, pids))):
        time.sleep(0.05)
    assert not folder.exists()
    assert [pid for pid in pids if is_alive(pid)] == []


def is_alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
