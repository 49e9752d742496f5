"""Turns that several frontends share, in a server that speaks Redis' protocol, such as Valkey.

The server may fail, hang or hold anything: that costs a turn, and at most the time of one look-up.
A value is sealed with the digest of its conversation, which the server never learns: only who has
the conversation can make one, and a value in another's place is refused.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import sys
import time
import zlib
from collections.abc import Callable, Sequence

import msgspec

from ...base.limits import (
    MAX_FETCHED_TURNS,
    MAX_TURN_BYTES,
    MAX_WAITING_TURN_BYTES,
    MAX_WAITING_TURNS,
    TURN_LOOKUP_MS,
)
from ...base.log import get_logger
from .turn_store import Turn

logger = get_logger(__name__)

PREFIX = b"backedge:turn:2:"
SEAL_BYTES = 32
# A server that has failed is left alone for this long, so that it delays no more requests.
PAUSE_S = 1.0
# The other half of the limit is for an event loop that notices late.
TIMEOUT_S = TURN_LOOKUP_MS / 2 / 1000
WRITE_TIMEOUT_S = 1.0
MAX_CONNECTIONS = 16
Learn = Callable[[bytes, Turn], object]
# The client raises them, besides its own, for a peer that does not speak the protocol.
FAILURES = (OSError, ValueError, TypeError, LookupError, AttributeError, RecursionError)


class SharedTurns:
    """The turns in one server, for one event loop.

    url: redis:// or rediss://. expiry_s: how long the server keeps a turn.
    """

    def __init__(self, url: str, expiry_s: int) -> None:
        # Imported here: frontends without a store do not need it.
        from redis.asyncio import BlockingConnectionPool, Redis
        from redis.asyncio.retry import Retry
        from redis.backoff import NoBackoff
        from redis.exceptions import RedisError

        self._failures = (RedisError, *FAILURES)
        self._expiry_s = expiry_s
        self._resume_at = 0.0
        self._writing: dict[asyncio.Task[None], int] = {}
        self._looking: set[asyncio.Future[list[bytes | str | None]]] = set()
        # Look-ups have a limit of their own.
        pool = BlockingConnectionPool.from_url(
            url,
            max_connections=MAX_CONNECTIONS,
            timeout=WRITE_TIMEOUT_S,
            socket_connect_timeout=WRITE_TIMEOUT_S,
            socket_timeout=WRITE_TIMEOUT_S,
            retry=Retry(NoBackoff(), 0),
            protocol=2,
        )
        self._client = Redis.from_pool(pool)

    async def fetch(self, keys: Sequence[bytes]) -> dict[bytes, bytes]:
        """Return the values of the last keys that the server has, for `unseal`.

        Takes at most `TURN_LOOKUP_MS`; returns nothing if the server fails.
        """
        if not keys or time.monotonic() < self._resume_at:
            return {}
        keys = keys[-MAX_FETCHED_TURNS:]
        # The client may take a second to end a call that is cancelled, so nothing waits for it.
        looking = asyncio.ensure_future(self._client.mget([name_in_store(key) for key in keys]))
        looking.add_done_callback(self._forget)
        self._looking.add(looking)
        try:
            await asyncio.wait([looking], timeout=TIMEOUT_S)
            if not looking.done():
                raise TimeoutError
            found = zip(keys, looking.result(), strict=True)
            return {key: value for key, value in found if isinstance(value, bytes)}
        except self._failures as error:
            self._fail(error)
            return {}
        finally:
            looking.cancel()

    def _forget(self, looking: asyncio.Future[list[bytes | str | None]]) -> None:
        self._looking.discard(looking)
        if not looking.cancelled():
            looking.exception()  # asyncio would log one that nothing asks for, with its traceback

    def keep(self, key: bytes, turn: Turn, learn: Learn | None = None) -> None:
        """Write a turn, later; it is dropped if too many wait or the server fails.

        learn: called if another frontend has kept another answer; with what both have in common.
        """
        size = len(turn.generated) + sys.getsizeof(turn.reasoning)
        is_full = (
            len(self._writing) >= MAX_WAITING_TURNS
            or sum(self._writing.values()) + size > MAX_WAITING_TURN_BYTES
        )
        if is_full or time.monotonic() < self._resume_at:
            return
        task = asyncio.get_running_loop().create_task(self._write(key, turn, learn))
        self._writing[task] = size
        task.add_done_callback(self._writing.pop)

    async def settle(self) -> None:
        """Wait for the writes."""
        await asyncio.gather(*self._writing)

    async def close(self) -> None:
        """Wait for the writes, and close the connections."""
        await self.settle()
        await asyncio.gather(*self._looking, return_exceptions=True)
        await self._client.aclose()

    async def _write(self, key: bytes, turn: Turn, learn: Learn | None) -> None:
        name, value = name_in_store(key), await asyncio.to_thread(seal, key, turn)
        try:
            async with asyncio.timeout(WRITE_TIMEOUT_S):
                before = await self._client.set(name, value, ex=self._expiry_s, get=True)
                if not isinstance(before, bytes) or before == value:
                    return
                earlier = await asyncio.to_thread(unseal, key, before)
                if earlier is None or (both := earlier.join(turn)) == turn:
                    return
                if learn is not None:
                    learn(key, both)
                value = await asyncio.to_thread(seal, key, both)
                await self._client.set(name, value, ex=self._expiry_s)
        except self._failures as error:
            self._fail(error)

    def _fail(self, error: Exception) -> None:
        now = time.monotonic()
        if now >= self._resume_at:
            logger.warning("the store of turns does not answer (%s)", type(error).__name__)
        self._resume_at = now + PAUSE_S


def seal(key: bytes, turn: Turn) -> bytes:
    """Return the value of a turn in the server. key: the digest of its conversation."""
    packed = zlib.compress(msgspec.msgpack.encode(turn), 1)
    return hashlib.blake2b(packed, key=key, digest_size=SEAL_BYTES).digest() + packed


def unseal(key: bytes, value: bytes) -> Turn | None:
    """Return the turn; None for a value that `seal` has not made for this key."""
    packed = value[SEAL_BYTES:]
    expected = hashlib.blake2b(packed, key=key, digest_size=SEAL_BYTES).digest()
    if not hmac.compare_digest(expected, value[:SEAL_BYTES]):
        return None
    try:
        text = zlib.decompressobj().decompress(packed, MAX_TURN_BYTES)
        return msgspec.msgpack.decode(text, type=Turn)
    except (zlib.error, msgspec.DecodeError):
        return None


def name_in_store(key: bytes) -> bytes:
    """Return the key in the server, which does not tell `key`."""
    return PREFIX + hashlib.blake2b(key, digest_size=32).hexdigest().encode()
