"""Sends requests once, below the client's retries, so that a refusal is seen as the server sent it."""

from __future__ import annotations

import time
from types import TracebackType

import rowlock
from rowlock._core.conversation import Request
from rowlock._transport.servers import Servers
from rowlock_proto.v1 import region_pb2

TIMEOUT_SECONDS = 120.0


class SingleRequests:
    """A connection, as a context manager. Thread-safe."""

    def __init__(self, address: str) -> None:
        self._servers = Servers((address,))

    def send(self, request: Request) -> region_pb2.PointAnswer | rowlock.RowlockError:
        """Returns the answer or the server's error; blocks for it. Raises UnknownOutcomeError when none came."""
        deadline = time.monotonic() + TIMEOUT_SECONDS
        region = self._servers.region_of(request.table, request.row, deadline)
        with self._servers.sequences.taken(1) as number:
            if request.is_change:
                request.point.mutate.mutations[0].sequence = number
            failure = self._servers.attempt_in(region, request, deadline)
        if failure is not None and not request.is_in_doubt:
            return failure
        if failure is not None or request.answer is None:
            raise rowlock.UnknownOutcomeError(f"no answer within {TIMEOUT_SECONDS:g} s: {failure}")
        return request.answer

    def statistics(self) -> rowlock.ClientStatistics:
        """Returns how the requests have travelled."""
        return self._servers.statistics()

    def __enter__(self) -> SingleRequests:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._servers.close()
