"""The KV cache events of an engine in another process, for Dynamo's KV router."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Protocol

import grpc
from google.protobuf.message import Message
from smg_grpc_proto.generated import common_pb2 as messages

from ..base import limits
from ..base.log import get_logger
from .grpc_calls import Call, describe_error

logger = get_logger(__name__)

# The router counts blocks that are in the engine's own memory.
_OWN_MEMORY = (messages.KV_CACHE_TIER_UNSPECIFIED, messages.KV_CACHE_TIER_DEVICE)


class Publisher(Protocol):
    """Sends events to the routers. Source: `dynamo.llm.KvEventPublisher`."""

    def publish_stored(
        self,
        token_ids: list[int],
        num_block_tokens: list[int],
        block_hashes: list[int],
        parent_hash: int | None = None,
        *,
        lora_name: str | None = None,
        cache_salt: str | None = None,
    ) -> None:
        """Say that the cache has these blocks, one after the other."""

    def publish_removed(self, block_hashes: list[int]) -> None:
        """Say that the cache no longer has these blocks."""


class RankEvents:
    """The events of one data-parallel rank, whose cache may have a block more than once."""

    def __init__(self, publisher: Publisher) -> None:
        self._publisher = publisher
        self._copies: Counter[int] = Counter()

    def publish(self, event: Message) -> None:
        """Publish an event; one of another memory than the engine's own is ignored."""
        kind = event.WhichOneof("data")
        if kind == "cleared":
            self.forget()
        elif kind == "stored" and event.stored.tier in _OWN_MEMORY:
            self._store(event.stored)
        elif kind == "removed" and event.removed.tier in _OWN_MEMORY:
            self._remove(event.removed.block_hashes)

    def _store(self, stored: Message) -> None:
        blocks = stored.blocks
        if len(self._copies) + len(blocks) > limits.MAX_CACHED_BLOCKS:
            return
        hashes = [block.block_hash for block in blocks]
        self._copies.update(hashes)
        self._publisher.publish_stored(
            [token for block in blocks for token in block.token_ids],
            [len(block.token_ids) for block in blocks],
            hashes,
            stored.parent_block_hash if stored.HasField("parent_block_hash") else None,
            lora_name=stored.lora_name or None,
            cache_salt=stored.cache_salt or None,
        )

    def _remove(self, hashes: Iterable[int]) -> None:
        known = [block for block in hashes if block in self._copies]
        self._copies.subtract(known)
        gone = [block for block in dict.fromkeys(known) if self._copies[block] <= 0]
        for block in gone:
            del self._copies[block]
        if gone:
            self._publisher.publish_removed(gone)

    def forget(self) -> None:
        """Say that the cache no longer has any block."""
        if self._copies:
            self._publisher.publish_removed(list(self._copies))
            self._copies.clear()


class CacheEvents:
    """Publishes the events of the engine at `address`.

    subscribe: starts a call that gives the events. ranks: number of data-parallel ranks.
    """

    def __init__(self, subscribe: Callable[[], Call], address: str, ranks: int) -> None:
        self._subscribe = subscribe
        self._address = address
        self._waiting = ranks
        self._ranks: dict[int, RankEvents] = {}
        self._loop = asyncio.get_running_loop()
        self._task: asyncio.Task[None] | None = None

    def add(self, rank: int, publisher: Publisher) -> None:
        """Take the publisher of a rank; runs in any thread. The last one starts publishing."""
        self._loop.call_soon_threadsafe(self._add, rank, publisher)

    def _add(self, rank: int, publisher: Publisher) -> None:
        self._ranks[rank] = RankEvents(publisher)
        if len(self._ranks) == self._waiting:
            self._task = self._loop.create_task(self._follow())

    def stop(self) -> None:
        """Publish nothing more."""
        if self._task is not None:
            self._task.cancel()

    async def _follow(self) -> None:
        """Publish until the engine says that it has no events.

        An engine tells no new subscriber what its cache has, so with each call the router's
        knowledge begins anew.
        """
        while True:
            call = self._subscribe()
            try:
                async for batch in call:
                    self._publish(batch)
                problem = "the stream has ended"
            except grpc.aio.AioRpcError as error:
                problem = describe_error(error)
                if error.code() is grpc.StatusCode.UNIMPLEMENTED:
                    break
            finally:
                call.cancel()
            for rank in self._ranks.values():
                rank.forget()
            logger.info("the KV events of the engine at %s: %s", self._address, problem)
            await asyncio.sleep(limits.ENGINE_PROBE_INTERVAL_S)
        logger.warning(
            "the engine at %s publishes no KV events, so a router sees its load, not its cache: %s",
            self._address,
            problem,
        )

    def _publish(self, batch: Message) -> None:
        rank = self._ranks.get(batch.dp_rank)
        if rank is not None:
            for event in batch.events:
                rank.publish(event)
