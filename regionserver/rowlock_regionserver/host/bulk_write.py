"""One open bulk write: what it has staged, its batches and spills, and its end."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Sequence
from typing import Protocol

from rowlock_regionserver.config import GIB, KIB, MIB
from rowlock_regionserver.errors import InvalidRequestError, UnknownOutcomeError
from rowlock_regionserver.host.staging import Batch, StagedContents, StagedWrite, Staging
from rowlock_regionserver.operations import RequestId
from rowlock_regionserver.process_limits import memory_error_final
from rowlock_regionserver.region.bulk.spilled import Spill
from rowlock_regionserver.region.bulk.staged import StagedBatch
from rowlock_regionserver.sessions.session import HeldItem, HeldKind


class OpenWrites(Protocol):
    """The open bulk writes of a server, as one of them sees them."""

    def forget(self, write: BulkWrite) -> None: ...
    def remove(self, write: BulkWrite, *, bulk_files_too: bool) -> None: ...


class BulkWrite:
    """A Holding: one bulk write of a session to a table. Thread-safe."""

    def __init__(self, write: StagedWrite, writes: OpenWrites, contents: StagedContents) -> None:
        self._writes = writes
        # Held for a whole spill, which the end of the write waits for.
        self._spill_lock = threading.Lock()
        self._lock = threading.Lock()
        # Guarded by self._lock, until the write is closed. Of `write` only the reserved block changes.
        self.write = write
        self.contents = contents
        self._file_count = max([info.number for each in contents.spills for info in each.infos()], default=0)
        self._is_closed = False
        self._is_committed = False  # or may be: its bulk files belong to the log

    @property
    def bulk_file_bytes(self) -> int:
        """The bytes of its bulk files, without the batches that were spilled."""
        return self.contents.unspilled_bytes

    @property
    def byte_count(self) -> int:
        """The bytes of all its files."""
        return self.bulk_file_bytes + sum([each.byte_count for each in self.contents.spills])

    def staged(self) -> list[StagedBatch]:
        """Returns the bulk files that are in no spill, in the order in which they were sent."""
        return [each for _, each in self.unspilled()]

    def unspilled(self) -> list[tuple[int, StagedBatch]]:
        """Returns the same with the numbers of their batches."""
        with self._lock:
            return self.contents.unspilled()

    def item(self) -> HeldItem:
        text = f"bulk write of {self.write.table} ({_size_text(self.byte_count)})"
        return HeldItem(HeldKind.BULK_WRITE, self.write.table, text)

    def release(self, reason: str, *, is_stopping: bool) -> None:
        with self._lock:
            self._is_closed = True
        self._wait_for_spill()
        self._writes.forget(self)
        if not is_stopping and not self._is_committed:
            self._writes.remove(self, bulk_files_too=True)

    def find(self, request: RequestId | None) -> Batch | None:
        """Returns what this request has staged before, or the one that it is a part of, or parts of it."""
        with self._lock:
            return self.contents.find(request)

    def add(self, request: RequestId | None, staged: Sequence[StagedBatch], staging: Staging) -> tuple[Batch, bool]:
        """Makes a batch part of the write, durably. Returns it, and True.

        If the request was repeated and another call of it was quicker, returns that one's batch and False, and adds
        nothing. Raises InvalidRequestError if the write is closed, and the errors of `Staging.add`.
        """
        with self._lock:
            self._check_open()
            known = self.contents.find(request)
            if known is not None:
                return known, False
            number = self.contents.next_number
            if number > self.write.last_reserved:
                self.write = staging.reserved(self.write, number)
            parts_of = () if request is None else request.parts_of
            batch = Batch(number, self.contents.last_number, _key_of(request), tuple(staged), parts_of)
            path = staging.batch_path(self.write.write_number, number)
            staging.add(self.write, batch)
            with memory_error_final(path):
                self.contents.add(batch)
        return batch, True

    def _check_open(self) -> None:
        if self._is_closed:
            raise InvalidRequestError(
                f"the bulk write of table {self.write.table!r} is being committed or has ended; nothing was staged",
                table=self.write.table,
            )

    @contextlib.contextmanager
    def spilling(self) -> Iterator[None]:
        """Returns a context in which nobody else spills its batches, and its end waits."""
        with self._spill_lock:
            self._check_open()
            yield

    def _wait_for_spill(self) -> None:
        """Waits for a spill that runs. The write is closed, so no other begins."""
        with self._spill_lock:
            pass

    def new_file_number(self) -> int:
        """Returns a number that no store file of the write has."""
        with self._lock:
            self._file_count += 1
            return self._file_count

    def add_spill(self, spill: Spill, staging: Staging) -> None:
        """Makes a spill take the place of its batches, durably; inside `spilling`. Raises OSError."""
        with self._lock:
            folder = staging.folder_of(self.write)
            staging.add_spill(self.write, 1 + len(self.contents.spills), spill)
            with memory_error_final(folder):
                self.contents.add_spill(spill)

    @contextlib.contextmanager
    def closed(self) -> Iterator[None]:
        """Returns a context in which nothing more is staged; if its block raises, more may be staged afterwards."""
        with self._lock:
            if self._is_closed:
                raise InvalidRequestError(
                    f"the bulk write of table {self.write.table!r} is being committed already; wait for that call",
                    table=self.write.table,
                )
            self._is_closed = True
        self._wait_for_spill()
        try:
            yield
        except UnknownOutcomeError:
            self._is_committed = True
            raise
        except BaseException:
            with self._lock:
                self._is_closed = False
            raise

    def note_committed(self) -> None:
        """Notes that log records name its bulk files, or none ever will."""
        self._is_committed = True


def _key_of(request: RequestId | None) -> tuple[bytes, int] | None:
    return None if request is None else (request.client, request.sequence)


def _size_text(byte_count: int) -> str:
    """Returns a size for people, like 12.5 MiB."""
    for unit, size in (("GiB", GIB), ("MiB", MIB), ("KiB", KIB)):
        if byte_count >= size:
            return f"{byte_count / size:.1f} {unit}"
    return f"{byte_count} B"
