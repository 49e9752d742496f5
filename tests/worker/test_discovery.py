"""A worker leaves discovery while it does not serve, whatever discovery answers."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest
from backedge.worker.discovery import DiscoveryEntry

from tests.worker.scripted import run_in_virtual_time


class Discovery:
    """Takes a second for each change. fails: the changes, counted from 0, that it refuses."""

    def __init__(self, fails: Sequence[int] = ()) -> None:
        self.fails = fails
        self.listed = True
        self.changes = 0

    async def register_endpoint_instance(self) -> None:
        await self._change(listed=True)

    async def unregister_endpoint_instance(self) -> None:
        await self._change(listed=False)

    async def _change(self, *, listed: bool) -> None:
        await asyncio.sleep(1)
        self.changes += 1
        if self.changes - 1 in self.fails or listed is self.listed:
            raise Exception("discovery is away")  # noqa: TRY002 - as Dynamo's binding does
        self.listed = listed


# what happens, seconds apart; changes refused; whether it is listed at the end; changes
CASES = {
    "serves": ([True], 0.0, (), True, 0),
    "absent": ([False], 0.0, (), False, 1),
    "absent and back": ([False, True], 5.0, (), True, 2),
    "absent and back at once": ([False, True], 0.0, (), True, 2),
    "back while it is withdrawn": ([False, True], 0.5, (), True, 2),
    "not put back at first": ([False, True], 5.0, (1, 2), True, 4),
    "withdrawn by Dynamo": ([False, True], 5.0, (0,), True, 1),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_discovery_follows(
    case: tuple[list[bool], float, Sequence[int], bool, int],
) -> None:
    states, apart_s, fails, listed, changes = case
    discovery = Discovery(fails)

    async def run() -> None:
        entry = DiscoveryEntry()
        entry.update(False)
        entry.endpoint = discovery
        for state in states:
            entry.update(state)
            assert entry.serves is state
            await asyncio.sleep(apart_s)
        await asyncio.sleep(30)

    run_in_virtual_time(run())
    assert (discovery.listed, discovery.changes) == (listed, changes)
