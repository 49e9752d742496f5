"""Takes a worker that cannot answer out of Dynamo's discovery, and puts it back."""

from __future__ import annotations

import asyncio

from ..base.log import get_logger
from ..engines.dynamo.types import Endpoint

logger = get_logger(__name__)

RETRY_S = 5.0


class DiscoveryEntry:
    """The entry by which frontends find the worker.

    endpoint: None until Dynamo has built it.
    absent: the parts without which the worker cannot answer now.
    """

    def __init__(self) -> None:
        self.endpoint: Endpoint | None = None
        self.absent: set[str] = set()
        self._is_listed = True
        self._task: asyncio.Task[None] | None = None

    @property
    def serves(self) -> bool:
        """Whether the worker can answer now; health checks read it as well."""
        return not self.absent

    def update(self, is_there: bool, part: str = "pool") -> None:
        """Withdraw the entry, or register it again when all parts are there.

        Call in the event loop.
        """
        (self.absent.discard if is_there else self.absent.add)(part)
        if self.endpoint is not None and (self._task is None or self._task.done()):
            self._task = asyncio.get_running_loop().create_task(self._follow(self.endpoint))

    async def _follow(self, endpoint: Endpoint) -> None:
        while self._is_listed != self.serves:
            serves = self.serves
            try:
                await (
                    endpoint.register_endpoint_instance()
                    if serves
                    else endpoint.unregister_endpoint_instance()
                )
            except Exception:  # the binding raises no other class
                logger.exception("cannot change this worker's entry in Dynamo's discovery")
                if not serves:
                    return  # Dynamo has withdrawn it: the engine sleeps, or the worker ends
                await asyncio.sleep(RETRY_S)
                continue
            self._is_listed = serves
            logger.warning("the worker %s", "is listed again" if serves else "takes no requests")
