"""Serves streams of bulk batches, by gRPC and on direct connections."""

from __future__ import annotations

from collections.abc import Callable, Coroutine

from rowlock_regionserver.config import Config
from rowlock_regionserver.engine.bulk_streams import BulkStreams
from rowlock_regionserver.engine.interfaces import BatchBytes
from rowlock_regionserver.rpc.messages.bulk_batches import BulkMessages


def _release_nothing() -> None:
    pass


class BulkCalls:
    """Used on the event loop."""

    def __init__(self, streams: BulkStreams, config: Config) -> None:
        self._streams = streams
        self._messages = BulkMessages(config.request_bytes_max)

    def may_receive(self, byte_count: int) -> bool:
        """Whether a batch of this size may be received now, by a caller that counts it; else later."""
        return self._streams.may_receive(byte_count)

    async def serve(
        self,
        read: Callable[[], Coroutine[None, None, BatchBytes | None]],
        write: Callable[[bytes], Coroutine[None, None, None]],
        release: Callable[[], None] = _release_nothing,
    ) -> None:
        """Serves one stream; see BulkStreams.serve."""
        await self._streams.serve(self._messages, read, write, release)
