"""Takes a worker that cannot answer out of Dynamo's discovery, and puts it back."""

from __future__ import annotations

import asyncio
import logging

from ..engines.dynamo.types import Endpoint

logger = logging.getLogger(__name__)

RETRY_S = 5.0


class DiscoveryEntry:
    """The entry by which frontends find the worker.

    endpoint: None until Dynamo has built it.
    serves: whether the worker can answer now; health checks read it as well.
    """

    def __init__(self) -> None:
        self.endpoint: Endpoint | None = None
        self.serves = True
        self._is_listed = True
        self._task: asyncio.Task[None] | None = None

    def update(self, serves: bool) -> None:
        """Withdraw the entry, or register it again. Call in the event loop."""
        self.serves = serves
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
