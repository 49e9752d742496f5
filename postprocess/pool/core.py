"""The main process's side of the pool: which process works on which request, and what if it does not come back."""

from __future__ import annotations

import asyncio
import itertools
import logging
import os
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from ...parsers.errors import ParserFailedError
from ..guard import OnError, Report
from ..merge import Bounds
from ..messages import Spec
from ..request import log_failure
from ..stages import Clock
from . import wire
from .launch import Template
from .member import Member, Told
from .work import PoolWork

logger = logging.getLogger(__name__)

# A step that takes this part of the deadline is left alone with its process; the other requests get a new one.
PATIENCE_PART = 0.25
# How often a request may be at work in a process that dies before it counts as the cause.
MAX_DEATHS = 2
CORES_PER_PROCESS = 8
MAX_AUTO_PROCESSES = 4


class PoolSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How the pool works.

    build: "module:function" that returns the detokenizer and parser factories, called
        with `arguments` (JSON values) in a process without any of ours.
    deadline_s: of one step, the time for one chunk of the engine.
    """

    processes: int
    build: str
    arguments: dict[str, Any]
    parsers_name: str
    bounds: Bounds
    on_error: OnError = "degrade"
    deadline_s: float = 2.0


def auto_processes() -> int:
    """Return how many processes the machine has room for: none if it has few cores, a few if it has many."""
    return min(MAX_AUTO_PROCESSES, len(os.sched_getaffinity(0)) // CORES_PER_PROCESS)


class PoolStats:
    """What the pool counts: processes killed at the deadline, processes that died, requests that began again."""

    def __init__(self) -> None:
        self.kills = 0
        self.deaths = 0
        self.replays = 0


class Pool:
    """The processes, and the requests that each works on; see `Core`. To be made and used in one event loop."""

    def __init__(self, settings: PoolSettings, report: Report = log_failure) -> None:
        self.settings = settings
        self.parsers_name = settings.parsers_name
        self.stats = PoolStats()
        self._report = report
        self._loop = asyncio.get_running_loop()
        self._numbers = itertools.count(1)
        self._keys = itertools.count(1)
        self._works: dict[int, PoolWork] = {}
        self._template = Template(settings)
        self._members = [self._new_member() for _ in range(settings.processes)]
        self._quarantined: list[Member] = []
        self._watch: asyncio.TimerHandle | None = None

    @property
    def depth(self) -> int:
        """Chunks that wait to be processed, or are."""
        # A list, since it is asked by the thread that serves /metrics.
        return sum(work.behind for work in list(self._works.values()))

    @property
    def requests(self) -> int:
        """Requests in the pool."""
        return len(self._works)

    @property
    def pids(self) -> list[int]:
        """Of the processes that are there and serve."""
        return [member.pid for member in self._members if member.ready]

    async def ready(self) -> None:
        """Wait until all processes serve. Raises `SetupError` if they cannot start."""
        await self._template.ready
        while waiting := [member.started for member in self._members if not member.ready]:
            await asyncio.wait(waiting)

    def start(
        self,
        spec: Spec,
        token_ids: Sequence[int],
        now: float,
        wake: Callable[[], None],
        clock: Clock | None = None,
    ) -> PoolWork:
        """Begin a request in the process that has the fewest; measured is with the clock of the processes."""
        key = next(self._keys)
        member = min(self._members, key=lambda member: len(member.works))
        work = PoolWork(self, key, spec, list(token_ids), wake, measured=clock is not None)
        self._works[key] = work
        work.move(member)
        if self._watch is None:
            self._look_later()
        return work

    def closed(self, work: PoolWork) -> None:
        """Forget a request."""
        self._works.pop(work.key, None)
        for member in self._quarantined[:]:
            if not member.works:
                self._quarantined.remove(member)
                member.stop()

    def failed(self, failure: ParserFailedError) -> None:
        """Report a parser that raised in its process."""
        self._report(failure)

    def close(self) -> None:
        """End all processes, and leave nothing behind."""
        if self._watch is not None:
            self._watch.cancel()
        for member in (*self._members, *self._quarantined):
            member.stop()
        self._template.stop()

    def _new_member(self) -> Member:
        return Member(self._template, next(self._numbers), self._answer, self._died)

    def _answer(self, member: Member, answer: Told) -> None:
        work = self._works.get(answer.key)
        if work is not None and work in member.works:  # else another process has it by now
            work.answer(answer)

    # Processes that do not come back.

    def _look_later(self) -> None:
        self._watch = self._loop.call_later(self.settings.deadline_s * PATIENCE_PART / 2, self._look)

    def _look(self) -> None:
        """Look for steps that take too long."""
        self._watch = None
        now = self._loop.time()
        for member in (*self._members, *self._quarantined):
            busy = member.busy()
            if busy is None:
                continue
            if now - busy.since > self.settings.deadline_s:
                self._overrun(member, busy)
            elif now - busy.since > self.settings.deadline_s * PATIENCE_PART and member in self._members:
                self._quarantine(member, busy.key)
        if self._works:
            self._look_later()

    def _quarantine(self, member: Member, key: int) -> None:
        """Give the requests that wait behind a long step another process."""
        others = [work for work in member.works if work.key != key]
        self._replace(member)
        for work in others:
            self._move(work)
        if member.works:
            self._quarantined.append(member)
        else:
            member.stop()

    def _overrun(self, member: Member, step: wire.Step) -> None:
        """Kill a process whose step is beyond the deadline."""
        self.stats.kills += 1
        logger.error(
            "a step of the %s parsers took longer than %g s; process %d is killed",
            self.parsers_name,
            self.settings.deadline_s,
            member.pid,
        )
        works = list(member.works)
        self._remove(member)
        for work in works:
            if work.key == step.key:
                self._degrade(work, step, f"a step took longer than the deadline of {self.settings.deadline_s:g} s")
            else:
                self._move(work)

    def _died(self, member: Member) -> None:
        """Begin the requests of a process that died again, in another one."""
        self.stats.deaths += 1
        busy = member.busy()
        logger.error("process %d of the pool died; its %d requests go on in another", member.pid, len(member.works))
        works = list(member.works)
        self._remove(member)
        for work in works:
            if busy is not None and work.key == busy.key:
                work.deaths += 1
                if work.deaths >= MAX_DEATHS:
                    self._degrade(work, busy, f"{work.deaths} processes died while they worked for it")
                    continue
            self._move(work)

    def _remove(self, member: Member) -> None:
        if member in self._members:
            self._replace(member)
        else:
            self._quarantined.remove(member)
        member.stop()

    def _replace(self, member: Member) -> None:
        self._members[self._members.index(member)] = self._new_member()

    def _move(self, work: PoolWork) -> None:
        self.stats.replays += 1
        work.move(min(self._members, key=lambda member: len(member.works)))

    def _degrade(self, work: PoolWork, step: wire.Step, reason: str) -> None:
        """Have the request go on without its parser from this step on, or fail."""
        work.processed = max(work.processed, step.chunks)  # the process had no time to tell
        failure = ParserFailedError(self.parsers_name, work.spec.response_id, work.position, reason)
        self._report(failure)
        if self.settings.on_error == "fail":
            work.fail(failure)
        else:
            work.degraded.append(wire.Degraded(work.next_index, work.processed, reason))
            self._move(work)
