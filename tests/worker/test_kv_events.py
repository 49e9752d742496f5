"""The KV cache events of an engine over gRPC, as Dynamo's publisher gets them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any

import grpc
import pytest
from backedge.base import limits
from backedge.worker.kv_events import CacheEvents, RankEvents
from hypothesis import given
from hypothesis import strategies as st
from smg_grpc_proto.generated import common_pb2 as messages

from tests.worker.test_remote_engine import error

HOST, DEVICE = messages.KV_CACHE_TIER_HOST, messages.KV_CACHE_TIER_DEVICE


class Publisher:
    """A router's knowledge of one cache: block hashes, each with its parent."""

    def __init__(self) -> None:
        self.blocks: dict[int, int | None] = {}
        self.changed = asyncio.Event()

    def publish_stored(
        self,
        token_ids: list[int],
        num_block_tokens: list[int],
        block_hashes: list[int],
        parent_hash: int | None = None,
        **names: str | None,
    ) -> None:
        assert len(token_ids) == sum(num_block_tokens)
        assert len(num_block_tokens) == len(block_hashes)
        for block in block_hashes:
            self.blocks[block] = parent_hash
            parent_hash = block
        self.changed.set()

    def publish_removed(self, block_hashes: list[int]) -> None:
        for block in block_hashes:
            del self.blocks[block]
        self.changed.set()


def stored(*hashes: int, tier: int = DEVICE, **fields: Any) -> messages.KvCacheEvent:
    blocks = [
        messages.KvBlock(block_hash=block, token_ids=[1, 2], block_size=2) for block in hashes
    ]
    return messages.KvCacheEvent(stored=messages.KvBlocksStored(blocks=blocks, tier=tier, **fields))


def removed(*hashes: int, tier: int = DEVICE) -> messages.KvCacheEvent:
    return messages.KvCacheEvent(removed=messages.KvBlocksRemoved(block_hashes=hashes, tier=tier))


CLEARED = messages.KvCacheEvent(cleared=messages.KvCacheCleared())
HASHES = st.lists(st.integers(-2, 2), min_size=1, max_size=4)


@given(
    st.lists(
        st.builds(lambda hashes, tier: stored(*hashes, tier=tier), HASHES, st.integers(0, 2))
        | st.builds(lambda hashes, tier: removed(*hashes, tier=tier), HASHES, st.integers(0, 2))
        | st.just(CLEARED)
    )
)
def test_the_router_knows_what_the_cache_has(events: list[messages.KvCacheEvent]) -> None:
    """Engines store and remove each copy of a block."""
    publisher = Publisher()
    rank = RankEvents(publisher)
    copies: dict[int, int] = {}
    for event in events:
        rank.publish(event)
        kind = event.WhichOneof("data")
        if kind == "cleared":
            copies = {}
        elif getattr(event, kind).tier != HOST:
            hashes = (
                [block.block_hash for block in event.stored.blocks]
                if kind == "stored"
                else event.removed.block_hashes
            )
            for block in hashes:
                copies[block] = max(copies.get(block, 0) + (1 if kind == "stored" else -1), 0)
        assert {*publisher.blocks} == {block for block, count in copies.items() if count}
    rank.forget()
    assert not publisher.blocks


def test_a_block_has_its_parent() -> None:
    publisher = Publisher()
    rank = RankEvents(publisher)
    rank.publish(stored(5, 6))
    rank.publish(stored(7, parent_block_hash=6))
    assert publisher.blocks == {5: None, 6: 5, 7: 6}


def test_more_blocks_than_a_cache_has_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MAX_CACHED_BLOCKS", 2)
    publisher = Publisher()
    rank = RankEvents(publisher)
    for event in (stored(1, 2), stored(3), removed(3), removed(1), stored(4)):
        rank.publish(event)
    assert {*publisher.blocks} == {2, 4}


class Subscription:
    """A call that gives these batches, and then fails or waits."""

    def __init__(
        self, batches: list[messages.KvEventBatch], failure: Exception | None = None
    ) -> None:
        self.batches = batches
        self.failure = failure

    def __aiter__(self) -> AsyncIterator[Any]:
        return self.responses()

    async def responses(self) -> AsyncGenerator[Any, None]:
        for batch in self.batches:
            yield batch
        if self.failure is None:
            await asyncio.Event().wait()
        else:
            raise self.failure

    def cancel(self) -> bool:
        return True


def batch(rank: int, *events: messages.KvCacheEvent) -> messages.KvEventBatch:
    return messages.KvEventBatch(dp_rank=rank, events=events)


def test_a_broken_stream_begins_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the engine has cached before is not known to be there any more."""
    monkeypatch.setattr(limits, "ENGINE_PROBE_INTERVAL_S", 0.001)
    lost = error(grpc.StatusCode.DATA_LOSS)
    calls = [
        Subscription([batch(0, stored(1)), batch(1, stored(2)), batch(7, stored(9))], lost),
        Subscription([batch(1, stored(3))]),
    ]

    async def run() -> list[dict[int, int | None]]:
        events = CacheEvents(lambda: calls.pop(0), "host:1", 2)
        publishers = [Publisher(), Publisher()]
        for rank, publisher in enumerate(publishers):
            events.add(rank, publisher)
        while 3 not in publishers[1].blocks:
            await publishers[1].changed.wait()
            publishers[1].changed.clear()
        events.stop()
        return [publisher.blocks for publisher in publishers]

    assert asyncio.run(run()) == [{}, {3: None}]
    assert not calls


def test_an_engine_without_events_is_named(caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> None:
        call = Subscription([], error(grpc.StatusCode.UNIMPLEMENTED))
        events = CacheEvents(lambda: call, "host:1", 1)
        events.add(0, Publisher())
        await asyncio.sleep(0)  # for the publisher
        (following,) = asyncio.all_tasks() - {asyncio.current_task()}
        await following

    asyncio.run(run())
    assert "host:1 publishes no KV events" in caplog.text
    assert "UNIMPLEMENTED why" in caplog.text
