"""The soak's faults: kills, stops and drains of every kind of process, one after the other."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from tests.e2e.test_pool import pool_processes
from tools.stack import Process

STOPPED_S = 3.0
# Requests of a worker that no other one serves get 503 while its pool has no process.
POOL_PROCESSES = "the pool"
# How long after the end of a fault what it explains may still happen.
AFTERMATH_S = 20.0
START_S = 240.0


@dataclass
class Fault:
    """One fault. breaks: what the requests use that it may break.

    ended: None while the process has not come back.
    """

    kind: str
    breaks: frozenset[str]
    began: float
    ended: float | None = None

    def explains(self, uses: frozenset[str], began: float, ended: float) -> bool:
        """Whether a request that `uses` these may have failed through it."""
        hits = not uses.isdisjoint(self.breaks)
        return hits and self.is_beside(began, ended, AFTERMATH_S)

    def is_beside(self, began: float, ended: float, aftermath_s: float) -> bool:
        """Whether it happened between these times, or less than `aftermath_s` before them."""
        until = float("inf") if self.ended is None else self.ended + aftermath_s
        return ended >= self.began and began <= until


@dataclass
class Member:
    """A process of the fleet that faults may hit.

    start: starts it anew. breaks: which requests it takes along if it goes: those at a frontend;
        of a worker that has another one beside it, those that cannot move.
    """

    name: str
    process: Process
    start: Callable[[], Process]
    is_ready: Callable[[Process], bool]
    breaks: frozenset[str] = frozenset()


class Faults:
    """Does something to a member every `pause_s` seconds, until `end`."""

    def __init__(
        self,
        members: Sequence[Member],
        pooled: Process,
        lasting: Mapping[str, Process],
        end: float,
        pause_s: float,
        choose: random.Random,
    ) -> None:
        """Put the fleet together.

        pooled: a worker whose pool is hit; it lives on. lasting: processes, by name, that are
        only stopped for a while.
        """
        self.done: list[Fault] = []
        self._members, self._pooled, self._lasting = members, pooled, lasting
        self._end, self._pause_s, self._random = end, pause_s, choose

    async def run(self) -> None:
        """Do one fault after the other; each kind comes round again and again."""
        while time.monotonic() < self._end:
            for kind, action in self._shuffle():
                await asyncio.sleep(self._pause_s)
                if time.monotonic() >= self._end:
                    return
                fault = Fault(kind, frozenset(), time.monotonic())
                self.done.append(fault)
                await action(fault)
                fault.ended = time.monotonic()

    def _shuffle(self) -> list[tuple[str, Callable[[Fault], Awaitable[None]]]]:
        actions = list(self._list_actions())
        self._random.shuffle(actions)
        return actions

    def _list_actions(self) -> Iterator[tuple[str, Callable[[Fault], Awaitable[None]]]]:
        for member in self._members:
            for number in (signal.SIGKILL, signal.SIGTERM):
                yield f"{number.name} {member.name}", self._restart(member, number)
            yield f"SIGSTOP {member.name}", self._stop(member.process, member.breaks)
        for name, process in self._lasting.items():
            yield f"SIGSTOP {name}", self._stop(process, frozenset())
        for number in (signal.SIGKILL, signal.SIGSTOP):
            yield f"{number.name} a pool process", self._hit_pool(number, slice(1, 2))
            yield f"{number.name} the fork server", self._hit_pool(number, slice(0, 1))
        yield "SIGKILL all pool processes", self._hit_pool(signal.SIGKILL, slice(1, None))

    def _restart(self, member: Member, number: int) -> Callable[[Fault], Awaitable[None]]:
        async def restart(fault: Fault) -> None:
            fault.breaks = member.breaks
            if number == signal.SIGKILL:
                member.process.kill()
            else:
                member.process.terminate()
            await asyncio.to_thread(member.process.reap)
            member.process = member.start()
            await wait_until_ready(member)

        return restart

    def _stop(self, process: Process, breaks: frozenset[str]) -> Callable[[Fault], Awaitable[None]]:
        async def stop(fault: Fault) -> None:
            fault.breaks = breaks
            with suppress(ProcessLookupError):
                os.kill(process.popen.pid, signal.SIGSTOP)
                await asyncio.sleep(STOPPED_S)
                os.kill(process.popen.pid, signal.SIGCONT)

        return stop

    def _hit_pool(self, number: int, which: slice) -> Callable[[Fault], Awaitable[None]]:
        async def hit(fault: Fault) -> None:
            fault.breaks = frozenset({POOL_PROCESSES})
            before = pool_processes(self._pooled)
            # A process that stays stopped is the pool's to notice.
            for pid in before[which]:
                with suppress(ProcessLookupError):
                    os.kill(pid, number)
            if number == signal.SIGSTOP and which.start == 0:
                return  # a stopped fork server is noticed at the next fork
            until = time.monotonic() + START_S
            while time.monotonic() < until:
                found = pool_processes(self._pooled)
                if len(found) == len(before) and set(found).isdisjoint(before[which]):
                    return
                await asyncio.sleep(0.5)

        return hit


async def wait_until_ready(member: Member) -> None:
    """Wait until a process that was started anew serves requests."""
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline:
        if await asyncio.to_thread(member.is_ready, member.process):
            return
        member.process.check()
        await asyncio.sleep(0.2)
    member.process.wait_for(lambda: False, 0.0)
