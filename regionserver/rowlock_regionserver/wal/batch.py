"""The batch: records that are written together, and the callers that wait for them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from rowlock_regionserver.cells import Durability

Complete = Callable[[], None]

_OS = int(Durability.OS)
_FSYNC = int(Durability.FSYNC)


def do_nothing() -> None:
    """The completion of a record without a waiting caller."""


class Batch:
    """Records that lie side by side in one segment, and the callers that wait for them, in log order.

    `completes[:written_from]` wait for nothing, `[written_from:synced_from]` for the write, the rest for the sync.
    """

    __slots__ = ("completes", "data", "head", "offset", "sealed", "segment", "synced_from", "written_from")

    def __init__(self, segment: int, offset: int, head: bytes = b"", sealed: Mapping[int, int] | None = None) -> None:
        self.segment = segment
        self.offset = offset  # of the first byte of `data`
        self.data = bytearray()
        self.completes: list[Complete] = []
        self.written_from: int | None = None
        self.synced_from: int | None = None
        # Only in a batch that begins a segment: the bytes before `data`, and, for the segment before, each region with
        # its last write number there.
        self.head = head
        self.sealed = sealed

    def add(self, durability: int, complete: Complete) -> None:
        if self.written_from is None and durability >= _OS:
            self.written_from = len(self.completes)
        if self.synced_from is None and durability >= _FSYNC:
            self.synced_from = len(self.completes)
        self.completes.append(complete)
