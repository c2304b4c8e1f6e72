"""The open bulk writes: batches that are staged for a session, invisible until their commit (bulk_commit.py).

A bulk write is held by its session. When the session ends, the write is aborted: its files are removed. When the server
stops, they stay.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from rowlock_regionserver.clock import Clock
from rowlock_regionserver.config import MIB, Config
from rowlock_regionserver.errors import InvalidRequestError, LimitExceededError, SessionEndedError, UnknownOutcomeError
from rowlock_regionserver.files import Files
from rowlock_regionserver.host.client_state import ClientState
from rowlock_regionserver.host.staging import Batch, StagedWrite, Staging
from rowlock_regionserver.operations import RequestId
from rowlock_regionserver.region.bulk.bulk_file import bulk_file_path
from rowlock_regionserver.region.bulk.bulk_load import BulkResult
from rowlock_regionserver.region.bulk.row_batch import BulkBatch
from rowlock_regionserver.region.bulk.staged import StagedBatch
from rowlock_regionserver.region.region import Region
from rowlock_regionserver.sessions.session import HeldItem, HeldKind, SessionInfo, SessionRef
from rowlock_regionserver.table import Table


class BulkWrite:
    """A Holding: one bulk write of a session to a table. Thread-safe."""

    def __init__(self, write: StagedWrite, writes: BulkWrites, batches: dict[int, Batch]) -> None:
        self.write = write
        self._writes = writes
        self._lock = threading.Lock()
        # Guarded by self._lock:
        self._batches = batches
        self._is_closed = False
        self._is_committed = False  # or may be: its bulk files belong to the log

    @property
    def byte_count(self) -> int:
        """The bytes of its bulk files."""
        return sum([each.record.file_bytes for each in self.staged()])

    def staged(self) -> list[StagedBatch]:
        """Returns the staged files, in the order in which they were sent."""
        return [each for _, batch in sorted(self._batches.items()) for each in batch.staged]

    def item(self) -> HeldItem:
        text = f"bulk write of {self.write.table} ({self.byte_count / MIB:.1f} MiB)"
        return HeldItem(HeldKind.BULK_WRITE, self.write.table, text)

    def release(self, reason: str, *, is_stopping: bool) -> None:
        with self._lock:
            self._is_closed = True
        self._writes.forget(self)
        if not is_stopping and not self._is_committed:
            self._writes.remove(self, bulk_files_too=True)

    def find(self, request: RequestId | None) -> Batch | None:
        """Returns what this request has staged before, or the one that it is a part of."""
        keys = [] if request is None else [(request.client, each) for each in (request.sequence, *request.parts_of)]
        with self._lock:
            return next((each for each in self._batches.values() if each.request in keys), None)

    def add(self, request: RequestId | None, staged: Sequence[StagedBatch], staging: Staging) -> None:
        """Makes a batch part of the write, durably. Raises SessionEndedError and OSError."""
        batch = Batch(_key_of(request), tuple(staged))
        with self._lock:
            if self._is_closed:
                raise InvalidRequestError(
                    f"the bulk write of table {self.write.table!r} is being committed or has ended; nothing was staged",
                    table=self.write.table,
                )
            number = 1 + max(self._batches, default=0)
            staging.add(self.write, number, batch)
            self._batches = {**self._batches, number: batch}

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


class BulkWrites:
    """All open bulk writes of a server. Thread-safe."""

    def __init__(self, folder: Path, config: Config, clock: Clock, files: Files, clients: ClientState) -> None:
        self._config = config
        self._clock = clock
        self._files = files
        self._sessions = clients.sessions
        self._numbers = clients.numbers
        self._bulk_folder = folder / "bulk"
        self.staging = Staging(folder / "staging", files)
        # By session number and table id; each change is one step.
        self._writes: dict[tuple[int, int], BulkWrite] = {}

    def restore(self, found: Iterable[tuple[StagedWrite, dict[int, Batch]]]) -> None:
        """Opens the writes from before a restart again, with their sessions."""
        restored: dict[str, int] = {}
        for write, batches in sorted(found, key=lambda each: each[0].number, reverse=True):
            if restored.get(write.session_id, write.number) != write.number:
                self.remove(BulkWrite(write, self, batches), bulk_files_too=True)  # Of an earlier opening of the id.
                continue
            if write.session_id not in restored:
                restored[write.session_id] = write.number
                self._sessions.restore(
                    write.session_id, write.number, write.owner, write.purpose, write.idle_ms, write.started_ms
                )
            self._hold(BulkWrite(write, self, batches))

    def open(self, ref: SessionRef, table: Table) -> int:
        """Opens a bulk write of the session; an open one of this table stays. Returns its number. Blocks.

        Raises SessionEndedError.
        """
        with self._sessions.using(ref) as session:
            known = self._writes.get((session.number, table.table_id))
            if known is None:
                write = StagedWrite(
                    session.session_id,
                    session.number,
                    session.owner,
                    session.purpose,
                    session.started_ms,
                    session.idle_ms,
                    table.name,
                    table.table_id,
                    self._numbers.next_prepared(),
                )
                self.staging.make(write)
                known = BulkWrite(write, self, {})
                self._hold(known)
            return known.write.write_number

    def _hold(self, write: BulkWrite) -> None:
        place = (write.write.number, write.write.table_id)
        self._writes[place] = write
        try:
            self._sessions.attach(SessionRef(write.write.session_id, write.write.number), write)
        except SessionEndedError:
            del self._writes[place]
            self.staging.remove(write.write)
            raise

    def find(self, session: SessionInfo, table: Table) -> BulkWrite:
        """Returns the session's bulk write of the table. Raises InvalidRequestError if there is none."""
        found = self._writes.get((session.number, table.table_id))
        if found is None:
            raise InvalidRequestError(
                f"session {session.session_id!r} has no bulk write of table {table.name!r}; open one", table=table.name
            )
        return found

    def abort(self, ref: SessionRef, table: Table) -> None:
        """Ends the session's bulk write of the table without a commit; none is no error. Raises SessionEndedError."""
        with self._sessions.using(ref) as session:
            found = self._writes.get((session.number, table.table_id))
            if found is not None:
                with found.closed():  # Not while it is being committed.
                    if self._sessions.detach(session.ref, found):
                        found.release("it was aborted", is_stopping=False)

    def stage(self, ref: SessionRef, region: Region, batch: BulkBatch, request: RequestId | None) -> BulkResult:
        """Stages a batch of a region; returns when it is durable.

        Raises the errors of BulkLoad.stage, SessionEndedError and LimitExceededError.
        """
        with self._sessions.using(ref) as session:
            write = self.find(session, region.table)
            known = write.find(request)
            if known is not None:
                return _result_of(known.staged, is_repeated=True)
            deadline = self._clock.monotonic() + self._config.row_lock_wait_ms / 1000
            staged = region.bulk_load.stage(batch, deadline)
            try:
                self._check_size(write, staged)
                write.add(request, staged, self.staging)
            except BaseException:
                self._remove_files(staged)
                raise
            return _result_of(staged, is_repeated=False)

    def _check_size(self, write: BulkWrite, staged: Sequence[StagedBatch]) -> None:
        """A commit holds all of it in the memstores, beside what else is there."""
        limit = self._config.memstore_bytes_max // 4
        byte_count = write.byte_count + sum([each.record.file_bytes for each in staged])
        if byte_count > limit:
            raise LimitExceededError(
                f"a bulk write of {byte_count} bytes is larger than a quarter of memstore_bytes_max, {limit} bytes; "
                "write less at once, or give the server more memory",
                limit="memstore_bytes_max / 4",
                limit_value=limit,
                found=byte_count,
                table=write.write.table,
            )

    def forget(self, write: BulkWrite) -> None:
        """Removes it from the open ones."""
        self._writes.pop((write.write.number, write.write.table_id), None)

    def remove(self, write: BulkWrite, *, bulk_files_too: bool) -> None:
        """Removes the files of a write that has ended. Those that can't be removed are removed by the next start."""
        self.staging.remove(write.write)
        if bulk_files_too:
            self._remove_files(write.staged())

    def committed(self, write: BulkWrite) -> None:
        """Ends a write whose commit is durable, or not needed: log records name its bulk files, or none does."""
        write.note_committed()
        self._sessions.detach(SessionRef(write.write.session_id, write.write.number), write)
        self.forget(write)

    def _remove_files(self, staged: Iterable[StagedBatch]) -> None:
        with contextlib.suppress(OSError):
            for each in staged:
                self._files.remove_if_there(bulk_file_path(self._bulk_folder, each.record.file_number))


def _result_of(staged: Sequence[StagedBatch], *, is_repeated: bool) -> BulkResult:
    cell_count = sum([each.record.cell_count for each in staged])
    return BulkResult(cell_count, sum([each.record.row_count for each in staged]), 0, is_repeated)
