"""Replay: a region takes the log's records into its memstores.

Recovery of a long log of small changes is bound by what one record costs, so a row's record is taken apart here only as
far as needed: its cells go into the segments at once, while the request id and the answer stay packed until the end,
when most of them lie below their client's floor and are never unpacked. Memory is counted in strides.
"""

from __future__ import annotations

from rowlock_regionserver.cells import ReadSpans, from_then_on
from rowlock_regionserver.errors import CorruptionError
from rowlock_regionserver.operations import RowResult
from rowlock_regionserver.region.apply import Applier
from rowlock_regionserver.region.bulk_file import WrittenBulkFile, decode_tables, read_bulk_file
from rowlock_regionserver.region.mvcc import Mvcc
from rowlock_regionserver.region.requests import RequestIds
from rowlock_regionserver.region.shared_parts import SharedParts
from rowlock_regionserver.region.stores import Stores
from rowlock_regionserver.region.table import Table
from rowlock_regionserver.wal.mutation import (
    HAS_REQUEST,
    KIND_BULK,
    KIND_ROW,
    BulkRecord,
    decode_cells,
    decode_request,
    request_of,
)

STRIDE_BYTES = 1 << 20
# Of one client's packed answers, before it is worth looking which ones lie below its floor.
PACKED_BYTES_MIN = 1 << 20
# What a kept record takes beside its payload.
RECORD_BYTES = 200


class _PackedAnswers:
    """One client's records since the last sweep, by sequence: what the answers are unpacked from."""

    __slots__ = ("byte_count", "floor", "records", "sweep_at_bytes")

    def __init__(self) -> None:
        self.floor = 0
        self.records: dict[int, tuple[int, bytes]] = {}
        self.byte_count = 0
        self.sweep_at_bytes = PACKED_BYTES_MIN

    def sweep(self) -> None:
        """Drops what is below the floor; amortised, since the next sweep comes when the rest has doubled."""
        self.records = {sequence: kept for sequence, kept in self.records.items() if sequence >= self.floor}
        self.byte_count = sum(len(payload) + RECORD_BYTES for _, payload in self.records.values())
        self.sweep_at_bytes = PACKED_BYTES_MIN + 2 * self.byte_count


class Replay:
    """Fills one region from the log; used by one thread, before anybody reads."""

    def __init__(
        self,
        table: Table,
        stores: Stores,
        mvcc: Mvcc,
        requests: RequestIds,
        shared: SharedParts,
    ) -> None:
        self._names = table.name_by_number
        self._stores = stores
        self._memstores = {store.family.number: store.memstore for store in stores.all()}
        self._mvcc = mvcc
        self._requests = requests
        self._memory = shared.memory
        self._applier = Applier(stores, shared.memory, self._read_spans, on_failure=_raised_all_the_same)
        self._bulk_folder = shared.bulk_folder
        self._files = shared.files
        self._clock = shared.clock
        self._last = mvcc.last
        self._uncounted_bytes = 0
        self._answers: dict[bytes, _PackedAnswers] = {}
        # Bulk files that records name, with their write numbers.
        self.bulk_files: dict[int, int] = {}

    def apply(self, write_number: int, kind: int, payload: bytes) -> None:
        """Takes a record, unless it is in a store file already. Records come in order of write numbers.

        Raises CorruptionError when a bulk file is not what its record says.
        """
        if write_number <= self._last:
            return
        self._last = write_number
        if kind == KIND_ROW:
            row, by_family, position, flags = decode_cells(payload, write_number)
            for family_number, cells in by_family:
                memstore = self._memstores.get(family_number)
                if memstore is not None:  # Else the family was dropped since.
                    self._uncounted_bytes += memstore.active.apply(row, cells, self._read_spans)
            if self._uncounted_bytes >= STRIDE_BYTES:
                self.count_memory()
            if flags & HAS_REQUEST:
                self._keep_packed(write_number, payload, position)
        elif kind == KIND_BULK:
            self._apply_bulk(write_number, BulkRecord.decode(payload))
        else:
            raise CorruptionError("the log", 0, "a record kind of this version", str(kind))

    def settle(self) -> None:
        """Brings everything that was put off up to date: read point, memory, answers. The region is readable then."""
        self._mvcc.restore(self._last)
        self.count_memory()
        for store in self._stores.all():
            store.memstore.recovered()
        now_ms = self._clock.now_ms()
        for client in self._answers.values():
            client.sweep()
            for write_number, payload in client.records.values():
                row, cells, position, flags = decode_cells(payload, write_number)
                request, result = decode_request(payload, position, flags, cells, self._names)
                self._requests.keep(request, row, write_number, result, now_ms)
        self._answers.clear()

    def _keep_packed(self, write_number: int, payload: bytes, position: int) -> None:
        """Keeps a record for the answer to its request, which begins at `position`."""
        client, sequence, floor = request_of(payload, position)
        answers = self._answers.get(client)
        if answers is None:
            answers = self._answers[client] = _PackedAnswers()
        answers.records[sequence] = (write_number, payload)
        answers.byte_count += len(payload) + RECORD_BYTES
        if floor > answers.floor:
            answers.floor = floor
        if answers.byte_count >= answers.sweep_at_bytes:
            answers.sweep()

    def _read_spans(self) -> ReadSpans:
        """Nobody reads yet, so only the newest state is needed."""
        return from_then_on(self._last)

    def count_memory(self) -> None:
        """Tells the gauge what has come since it was last told."""
        self._memory.add(self._uncounted_bytes)
        self._uncounted_bytes = 0

    def _apply_bulk(self, write_number: int, record: BulkRecord) -> None:
        if record.file_number:
            written = WrittenBulkFile(record.file_number, record.file_bytes, record.file_checksum)
            tables = read_bulk_file(self._files, self._bulk_folder, written)
            self.bulk_files[record.file_number] = write_number
        else:
            tables = decode_tables(record.cells)
        known = {number: cells for number, cells in tables.items() if number in self._names}
        self._applier.apply_early(known, write_number, record.stamp, as_segments=record.file_number != 0)
        if record.request is not None:
            result = RowResult(timestamp=record.stamp)
            self._requests.keep(record.request, record.first_row, write_number, result, self._clock.now_ms())


def _raised_all_the_same(error: BaseException) -> None:
    """Ends the recovery."""
