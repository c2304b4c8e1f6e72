"""Replay: applies log records to a region's memstores: those of the log at a start, and those that a split copies.

Recovery of a long log of small changes is bound by the cost of one record. So a row's record is decoded only as far as
needed: its cells are applied at once, while the request id and the answer stay packed until a later record shows that
they are below their client's floor. Few are ever unpacked. Memory is counted in strides.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection

from rowlock_regionserver.cells import NEWEST, ProtectedReadPoints, from_then_on
from rowlock_regionserver.errors import CorruptionError
from rowlock_regionserver.operations import RequestId, RowResult
from rowlock_regionserver.region.apply import Applier
from rowlock_regionserver.region.bulk.arranged import bytes_as_cells
from rowlock_regionserver.region.bulk.bulk_file import WrittenBulkFile, decode_parts, read_bulk_file
from rowlock_regionserver.region.region_parts import RegionParts
from rowlock_regionserver.wal.mutation import (
    BULK_KINDS,
    HAS_REQUEST,
    KIND_ROW,
    KIND_ROW_PUTS,
    BulkRecord,
    decode_cells,
    decode_request,
    encode_row,
    request_of,
)
from rowlock_regionserver.wal.row_requests import RowRequests

STRIDE_BYTES = 1 << 20
# A region with more bytes of packed answers unpacks them, which makes them smaller, if all regions' take much memory.
PACKED_BYTES_MIN = 1 << 16
# A packed answer's bytes in memory without its record's payload.
RECORD_BYTES = 250


class _PackedAnswers:
    """One client's records that are not below its floor, in log order: (sequence, write number, payload)."""

    __slots__ = ("floor", "records")

    def __init__(self) -> None:
        self.floor = 0
        self.records: deque[tuple[int, int, bytes]] = deque()

    def raise_floor(self, floor: int) -> int:
        """Drops records below the floor; returns their bytes. A record out of order is dropped when it comes first."""
        self.floor = floor
        freed = 0
        records = self.records
        while records and records[0][0] < floor:
            freed += RECORD_BYTES + len(records.popleft()[2])
        return freed


class Replay:
    """Fills one region from the log. Used by one thread, before any read."""

    def __init__(self, parts: RegionParts) -> None:
        self._stores = parts.stores
        self._names = parts.stores.served.table.name_by_number
        self._memstores = {store.family.number: store.memstore for store in parts.stores.all()}
        self._mvcc = parts.mvcc
        self._idempotency = parts.idempotency
        self._bulk_files = parts.bulk_files
        shared = parts.shared
        self._memory = shared.memory
        self._answer_memory = shared.request_ids
        self._applier = Applier(parts.stores, shared.memory, self._protected_read_points, on_failure=_leave_to_caller)
        self._bulk_folder = shared.bulk_folder
        self._segment_bytes_min = shared.config.bulk_file_bytes_min
        self._files = shared.files
        self.commits: Collection[int] = ()  # the numbers of all commits of bulk writes that the catalog has
        # True: readers of the region whose rows this one takes over may need older versions.
        self.keeps_old_versions = False
        self._last = parts.mvcc.last
        self._uncounted_bytes = 0
        self._answers: dict[bytes, _PackedAnswers] = {}
        self._packed_bytes = 0

    def apply(self, write_number: int, kind: int, payload: bytes) -> None:
        """Applies a record, unless its write is in a store file already. Records come in order of write numbers.

        Raises CorruptionError if a bulk file does not match its record.
        """
        if write_number <= self._last:
            return
        self._last = write_number
        if kind == KIND_ROW:
            row, by_family, position, flags = decode_cells(payload, write_number)
            for family_number, cells in by_family:
                memstore = self._memstores.get(family_number)
                if memstore is not None:  # Else the family was dropped since.
                    self._uncounted_bytes += memstore.active.apply(row, cells, self._protected_read_points)
            if self._uncounted_bytes >= STRIDE_BYTES:
                self.count_memory()
            if flags & HAS_REQUEST:
                self._defer_answer(write_number, payload, position)
        elif kind in BULK_KINDS:
            record = BulkRecord.decode(payload)
            if not record.commit_number or record.commit_number in self.commits:
                self._apply_bulk(write_number, record, is_of_rows=kind == KIND_ROW_PUTS)
        else:
            raise CorruptionError("the log", 0, "a record kind of this version", str(kind))

    def apply_deferred(self) -> None:
        """Applies what replay has deferred: read point, counted memory, answers. Then the region can be read."""
        self._mvcc.restore(self._last)
        self.count_memory()
        for store in self._stores.all():
            store.memstore.recovered()
        self._unpack_answers()

    def _unpack_answers(self) -> None:
        """Saves the packed answers to requests that are not below their clients' floors."""
        answers = self._answers
        self.forget_packed()
        for client in answers.values():
            for sequence, write_number, payload in client.records:
                if sequence >= client.floor:
                    row, cells, position, flags = decode_cells(payload, write_number)
                    request, result = decode_request(payload, position, flags, cells, self._names)
                    self._idempotency.save(request._replace(floor=client.floor), row, write_number, result)

    def forget_packed(self) -> None:
        """Drops the packed answers, and counts their memory as freed."""
        self._answers = {}
        self._count_packed(-self._packed_bytes)

    def _defer_answer(self, write_number: int, payload: bytes, position: int) -> None:
        """Holds a record for the answer to its request, which begins at `position`, without decoding it."""
        name, sequence, floor = request_of(payload, position)
        client = self._answers.get(name)
        if client is None:
            client = self._answers[name] = _PackedAnswers()
        client.records.append((sequence, write_number, payload))
        grown = RECORD_BYTES + len(payload)
        if floor > client.floor:
            grown -= client.raise_floor(floor)
        self._count_packed(grown)
        if self._packed_bytes > PACKED_BYTES_MIN and self._answer_memory.is_half_full:
            self._unpack_answers()

    def _count_packed(self, byte_count: int) -> None:
        self._packed_bytes += byte_count
        self._answer_memory.add(byte_count)

    def _protected_read_points(self) -> ProtectedReadPoints:
        """At a start there are no readers yet, so only the newest state is needed; with a change feed every cell."""
        is_newest_enough = self._mvcc.retained_after == NEWEST and not self.keeps_old_versions
        return from_then_on(self._last if is_newest_enough else 0)

    def count_memory(self) -> None:
        """Adds to the memory gauge the bytes that were applied since the last call."""
        self._memory.add(self._uncounted_bytes)
        self._uncounted_bytes = 0

    def _apply_bulk(self, write_number: int, record: BulkRecord, *, is_of_rows: bool) -> None:
        if record.file_number:
            written = WrittenBulkFile(record.file_number, record.file_bytes, record.file_checksum)
            parts = read_bulk_file(self._files, self._bulk_folder, written)
            self._bulk_files.add(record.file_number, write_number)
        else:
            parts = decode_parts(record.cells)
        known = {number: part for number, part in parts.items() if number in self._names}
        as_segments = is_of_rows or record.file_number != 0 or bytes_as_cells(known) >= self._segment_bytes_min
        self._applier.apply_early(known, write_number, record.stamp, as_segments=as_segments)
        if record.request is not None:
            result = RowResult(timestamp=record.stamp)
            self._idempotency.save(record.request, record.first_row, write_number, result, is_bulk=True)
        if record.row_requests is not None:
            self._defer_row_answers(write_number, record.row_requests, record.stamp)

    def _defer_row_answers(self, write_number: int, requests: RowRequests, stamp: int) -> None:
        """Holds the answer of each row as if the row had a record of its own, without cells."""
        result = RowResult(timestamp=stamp)
        client, floor = requests.client, requests.floor
        for row, sequence in zip(requests.rows, requests.sequences, strict=True):
            payload = encode_row(row, (), RequestId(client, sequence, floor), result, {})
            _, _, position, _ = decode_cells(payload, write_number)
            self._defer_answer(write_number, payload, position)


def _leave_to_caller(error: BaseException) -> None:
    """Does nothing: the error is raised as well, and ends the recovery."""
