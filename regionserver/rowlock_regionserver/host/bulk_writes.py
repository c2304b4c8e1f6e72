"""The open bulk writes: batches that are staged for a session, invisible until their commit (bulk_commit.py).

A bulk write is held by its session. When the session ends, the write is aborted: its files are removed. When the server
stops, they stay.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable
from pathlib import Path

from rowlock_regionserver.errors import InvalidRequestError, SessionEndedError, UnknownOutcomeError
from rowlock_regionserver.host.bulk_write import BulkWrite
from rowlock_regionserver.host.client_state import ClientState
from rowlock_regionserver.host.disk_failures import DiskFailures
from rowlock_regionserver.host.spilling import Spilling
from rowlock_regionserver.host.staging import Batch, StagedContents, StagedWrite, Staging
from rowlock_regionserver.operations import RequestId
from rowlock_regionserver.process_limits import memory_error_refused
from rowlock_regionserver.region.bulk.bulk_file import remove_bulk_files
from rowlock_regionserver.region.bulk.bulk_load import BulkResult
from rowlock_regionserver.region.bulk.row_batch import BulkBatch
from rowlock_regionserver.region.bulk.staged import StagedBatch
from rowlock_regionserver.region.region import Region
from rowlock_regionserver.region.shared_parts import SharedParts
from rowlock_regionserver.sessions.session import SessionInfo, SessionRef
from rowlock_regionserver.table import Table


class BulkWrites:
    """All open bulk writes of a server. Thread-safe."""

    def __init__(self, folder: Path, shared: SharedParts, clients: ClientState, failures: DiskFailures) -> None:
        self._failures = failures
        self._config = shared.config
        self._clock = shared.clock
        self._files = shared.files
        self._sessions = clients.sessions
        self._numbers = clients.numbers
        self._bulk_folder = shared.bulk_folder
        self.staging = Staging(folder / "staging", shared.files)
        self.spilling = Spilling(shared, self.staging)
        # By session number and table id; each change is one step.
        self._writes: dict[tuple[int, int], BulkWrite] = {}
        self._lock = threading.Lock()
        self._opening = threading.Lock()  # held while a write is looked up and opened, also during its disk accesses
        self._ended: deque[BulkWrite] = deque()  # guarded by self._lock

    def restore(self, found: Iterable[tuple[StagedWrite, StagedContents]]) -> None:
        """Opens the writes from before a restart again, with their sessions."""
        restored: dict[str, int] = {}
        for write, contents in sorted(found, key=lambda each: each[0].number, reverse=True):
            if restored.get(write.session_id, write.number) != write.number:
                self.remove(BulkWrite(write, self, contents), bulk_files_too=True)  # Of an earlier opening of the id.
                continue
            if write.session_id not in restored:
                restored[write.session_id] = write.number
                self._sessions.restore(
                    write.session_id, write.number, write.owner, write.purpose, write.idle_ms, write.started_ms
                )
            self._hold(BulkWrite(write, self, contents))

    def open(self, ref: SessionRef, table: Table) -> int:
        """Opens a bulk write of the session; an open one of this table stays. Returns its number. Blocks.

        Raises SessionEndedError, and as DiskFailures.are_final.
        """
        # One at a time: a call and its repetition must not open two.
        with self._failures.are_final(), self._sessions.using(ref) as session, self._opening:
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
                known = BulkWrite(write, self, StagedContents())
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

    def has_spills(self, session: SessionInfo, table: Table) -> bool:
        """Whether the session's bulk write of the table has store files to adopt."""
        found = self._writes.get((session.number, table.table_id))
        return found is not None and bool(found.contents.spills)

    def abort(self, ref: SessionRef, table: Table) -> None:
        """Ends the session's bulk write of the table without a commit, if it has one. Raises SessionEndedError."""
        with self._sessions.using(ref) as session:
            found = self._writes.get((session.number, table.table_id))
            if found is not None:
                with found.closed():  # Not while it is being committed.
                    if self._sessions.detach(session.ref, found):
                        found.release("it was aborted", is_stopping=False)

    def stage(self, ref: SessionRef, region: Region, batch: BulkBatch, request: RequestId | None) -> BulkResult:
        """Stages a batch of a region; returns when it is durable.

        Raises the errors of BulkLoad.stage and of Spilling.make_room, SessionEndedError, and as DiskFailures.are_final.
        """
        with self._failures.are_final(), self._sessions.using(ref) as session:
            write = self.find(session, region.table)
            known = write.find(request)
            if known is not None:
                return _result_of(known, is_repeated=True)
            with memory_error_refused("a batch of a bulk write"):
                added, is_new = self._stage(write, region, batch, request)
            return _result_of(added, is_repeated=not is_new)

    def _stage(
        self, write: BulkWrite, region: Region, batch: BulkBatch, request: RequestId | None
    ) -> tuple[Batch, bool]:
        """Returns the staged batch, and whether this call has staged it; see BulkWrite.add."""
        deadline = self._clock.monotonic() + self._config.row_lock_wait_ms / 1000
        staged = region.bulk_load.stage(batch, deadline)
        try:
            byte_count = sum([each.record.file_bytes for each in staged])
            self.spilling.make_room(write, region.table, byte_count)
            added, is_new = write.add(request, staged, self.staging)
        except UnknownOutcomeError:
            raise  # The batch may be staged, and then a start needs its files.
        except BaseException:
            self._remove_files(staged)
            raise
        if not is_new:
            self._remove_files(staged)
        return added, is_new

    def forget(self, write: BulkWrite) -> None:
        """Removes it from the open ones."""
        self._writes.pop((write.write.number, write.write.table_id), None)

    def remove(self, write: BulkWrite, *, bulk_files_too: bool) -> None:
        """Removes the files of a write that has ended. Those that can't be removed are removed by the next start."""
        self.staging.remove(write.write)
        if bulk_files_too:
            self._remove_files(write.staged())

    def remove_later(self, write: BulkWrite) -> None:
        """Lets `remove_ended` remove the files of a large write that is committed. Its answer does not wait for it."""
        with self._lock:
            self._ended.append(write)

    def remove_ended(self) -> None:
        """Removes the files of large writes that were committed. Blocks on the disk."""
        while True:
            with self._lock:
                if not self._ended:
                    return
                write = self._ended.popleft()
            self.remove(write, bulk_files_too=False)

    def committed(self, write: BulkWrite) -> None:
        """Ends a write whose commit is durable, or not needed: log records name its bulk files, or none does."""
        write.note_committed()
        self._sessions.detach(SessionRef(write.write.session_id, write.write.number), write)
        self.forget(write)

    def _remove_files(self, staged: Iterable[StagedBatch]) -> None:
        remove_bulk_files(self._files, self._bulk_folder, [each.record.file_number for each in staged])


def _result_of(batch: Batch, *, is_repeated: bool) -> BulkResult:
    cell_count = sum([each.record.cell_count for each in batch.staged])
    row_count = sum([each.record.row_count for each in batch.staged])
    return BulkResult(cell_count, row_count, 0, is_repeated, batch.number)
