"""The payload of a region's log record: one row's change, or a reference to a bulk batch.

Integers are little-endian. A row record's payload:

    flags      u8    1: a request id and its answer follow; 2: the answer lists cells;
                     4: the answer's results are the record's cells; 8: a row procedure returned bytes
    row        u16 length
    cells      u32 count
    row's bytes
    for each cell, by family number and then in store order:
        family number u16, kind u8, timestamp i64, qualifier length u16, value length u32, qualifier, value
    with flag 1:
        client 16 bytes, sequence u64, floor u64, condition met u8, stamp i64
    with flag 2:
        seen count u32, results count u32, then for each cell:
        family number u16, timestamp i64, qualifier length u16, value length u32, qualifier, value
    with flag 8, which excludes 2 and 4:
        length u32, what the procedure returned

A bulk record's payload is a JSON object (BulkRecord) in UTF-8, its length u32 in front; without a bulk file, the cells
follow it in that file's layout (region/bulk/bulk_file.py). A batch with lines has layout version 2 and a kind of its
own. So has a part of a bulk write, whose object names the commit: without that commit in the catalog it is not a write.
The puts of many rows are such a record, too, of a kind of its own; its rows have request ids (row_requests.py).
The write number is the record's, so cells don't repeat it.
"""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from rowlock_regionserver.cells import PUT, Cell
from rowlock_regionserver.operations import AnswerCell, RequestId, RowResult
from rowlock_regionserver.wal.row_requests import RowRequests

KIND_ROW = 16
KIND_BULK = 17
# A bulk batch with lines: only in segments of format 3, which servers that don't know it refuse (segment.py).
KIND_BULK_LINES = 18
# A part of a bulk write over several regions; it counts only if the catalog has its commit (catalog/commits.py).
KIND_BULK_COMMIT = 19
# Puts of many rows in columns: only in segments of format 4.
KIND_ROW_PUTS = 20
# The kinds whose payload is a BulkRecord.
BULK_KINDS = (KIND_BULK, KIND_BULK_LINES, KIND_BULK_COMMIT, KIND_ROW_PUTS)

HAS_REQUEST = 1
HAS_CELLS_IN_ANSWER = 2
RESULTS_ARE_CELLS = 4
HAS_PROCEDURE_ANSWER = 8

# A cell before it has its write number: (qualifier, -timestamp, kind, value).
UnnumberedCell = tuple[bytes, int, int, bytes]
# One row's change: the cells of each family, by family number, in store order.
RowChange = Sequence[tuple[int, Sequence[UnnumberedCell]]]

_HEAD = struct.Struct("<BHI")
_CELL = struct.Struct("<HBqHI")
_REQUEST = struct.Struct("<16sQQBq")
_ANSWER_COUNTS = struct.Struct("<II")
_ANSWER_LENGTH = struct.Struct("<I")
_BULK_HEAD = struct.Struct("<I")
_ANSWER_CELL = struct.Struct("<HqHI")


def encode_row(
    row: bytes,
    change: RowChange,
    request: RequestId | None,
    result: RowResult,
    family_numbers: Mapping[bytes, int],
) -> bytes:
    """Encodes the payload of a row record; `family_numbers` is by name, for the cells in the answer."""
    flags = 0
    pack = _CELL.pack
    parts: list[bytes] = [b"", row]
    count = 0
    for family_number, cells in change:
        count += len(cells)
        for qualifier, negative_timestamp, kind, value in cells:
            head = pack(family_number, kind, -negative_timestamp, len(qualifier), len(value))
            parts += (head, qualifier, value)
    if request is not None:
        flags |= HAS_REQUEST
        parts.append(
            _REQUEST.pack(request.client, request.sequence, request.floor, result.condition_met, result.timestamp)
        )
        if result.answer:
            assert not result.seen, result.seen
            assert not result.results, result.results
            flags |= HAS_PROCEDURE_ANSWER
            parts += (_ANSWER_LENGTH.pack(len(result.answer)), result.answer)
        elif count == 1 and not result.seen and _is_the_one_cell(change, result, family_numbers):
            flags |= RESULTS_ARE_CELLS
        elif result.seen or result.results:
            flags |= HAS_CELLS_IN_ANSWER
            parts.append(_ANSWER_COUNTS.pack(len(result.seen), len(result.results)))
            for family, qualifier, timestamp, value in (*result.seen, *result.results):
                parts.append(
                    _ANSWER_CELL.pack(family_numbers[family], timestamp, len(qualifier), len(value)) + qualifier + value
                )
    parts[0] = _HEAD.pack(flags, len(row), count)
    return b"".join(parts)


def _is_the_one_cell(change: RowChange, result: RowResult, family_numbers: Mapping[bytes, int]) -> bool:
    if len(result.results) != 1:
        return False
    family, qualifier, timestamp, value = result.results[0]
    ((number, cells),) = [part for part in change if part[1]]
    return number == family_numbers[family] and cells[0] == (qualifier, -timestamp, PUT, value)


# Numbered cells by family number.
CellsByFamily = list[tuple[int, list[Cell]]]


def decode_cells(payload: bytes, write_number: int) -> tuple[bytes, CellsByFamily, int, int]:
    """Decodes a payload of `encode_row`: row, cells, the end of the cells, flags. With HAS_REQUEST a request follows.

    The record's checksum was checked, so the payload is valid. About 2 µs for one cell.
    """
    flags, row_length, count = _HEAD.unpack_from(payload)
    position = 7 + row_length
    row = payload[7:position]
    unpack = _CELL.unpack_from
    negative = -write_number
    if count == 1:
        family, kind, timestamp, qualifier_length, value_length = unpack(payload, position)
        value_start = position + 17 + qualifier_length
        stop = value_start + value_length
        cell = (payload[position + 17 : value_start], -timestamp, negative, kind, payload[value_start:stop])
        return row, [(family, [cell])], stop, flags
    by_family: CellsByFamily = []
    last_family = -1
    cells: list[Cell] = []
    for _ in range(count):
        family, kind, timestamp, qualifier_length, value_length = unpack(payload, position)
        value_start = position + 17 + qualifier_length
        if family != last_family:
            cells = []
            by_family.append((family, cells))
            last_family = family
        qualifier = payload[position + 17 : value_start]
        position = value_start + value_length
        cells.append((qualifier, -timestamp, negative, kind, payload[value_start:position]))
    return row, by_family, position, flags


def row_of(payload: bytes) -> bytes:
    """Returns the row of a payload of `encode_row`."""
    _, row_length, _ = _HEAD.unpack_from(payload)
    return payload[_HEAD.size : _HEAD.size + row_length]


def request_of(payload: bytes, position: int) -> tuple[bytes, int, int]:
    """Returns (client, sequence, floor) of a row record's request, which begins at `position`."""
    client, sequence, floor, _, _ = _REQUEST.unpack_from(payload, position)
    return client, sequence, floor


def decode_request(
    payload: bytes, position: int, flags: int, by_family: CellsByFamily, family_names: Mapping[int, bytes]
) -> tuple[RequestId, RowResult]:
    """Decodes the request that begins at `position`, and its answer. Names of families dropped since are empty."""
    client, sequence, floor, condition_met, stamp = _REQUEST.unpack_from(payload, position)
    seen: tuple[AnswerCell, ...] = ()
    results: tuple[AnswerCell, ...] = ()
    answer = b""
    if flags & HAS_PROCEDURE_ANSWER:
        start = position + _REQUEST.size + _ANSWER_LENGTH.size
        (length,) = _ANSWER_LENGTH.unpack_from(payload, position + _REQUEST.size)
        answer = payload[start : start + length]
    elif flags & RESULTS_ARE_CELLS:
        family, (cell,) = by_family[0]
        results = ((family_names.get(family, b""), cell[0], -cell[1], cell[4]),)
    elif flags & HAS_CELLS_IN_ANSWER:
        seen, results = _decode_answer_cells(payload, position + _REQUEST.size, family_names)
    return RequestId(client, sequence, floor), RowResult(condition_met != 0, seen, results, stamp, answer=answer)


def _decode_answer_cells(
    payload: bytes, position: int, family_names: Mapping[int, bytes]
) -> tuple[tuple[AnswerCell, ...], tuple[AnswerCell, ...]]:
    seen_count, result_count = _ANSWER_COUNTS.unpack_from(payload, position)
    position += _ANSWER_COUNTS.size
    cells: list[AnswerCell] = []
    for _ in range(seen_count + result_count):
        family, timestamp, qualifier_length, value_length = _ANSWER_CELL.unpack_from(payload, position)
        qualifier_start = position + _ANSWER_CELL.size
        value_start = qualifier_start + qualifier_length
        position = value_start + value_length
        qualifier = payload[qualifier_start:value_start]
        cells.append((family_names.get(family, b""), qualifier, timestamp, payload[value_start:position]))
    return tuple(cells[:seen_count]), tuple(cells[seen_count:])


@dataclass(frozen=True, slots=True)
class BulkRecord:
    """A bulk batch in the log: names its bulk file, with size and checksum, or has the cells itself."""

    stamp: int  # of cells without a timestamp
    cell_count: int
    row_count: int
    first_row: bytes
    request: RequestId | None
    file_number: int = 0  # 0: the cells are in the record
    file_bytes: int = 0
    file_checksum: int = 0  # CRC32C of the whole file
    cells: bytes = b""
    commit_number: int = 0  # of the bulk write that it is a part of; 0: none
    row_requests: RowRequests | None = None  # of rows that are changes of their own

    def encode(self) -> bytes:
        requests = self.row_requests
        of_rows = b"" if requests is None else requests.encode_rows()
        head = json.dumps(
            {
                "stamp": self.stamp,
                "cell_count": self.cell_count,
                "row_count": self.row_count,
                "first_row": base64.b64encode(self.first_row).decode(),
                "file": [self.file_number, self.file_bytes, self.file_checksum],
                **({"commit": self.commit_number} if self.commit_number else {}),
                **(
                    {"requests": [base64.b64encode(requests.client).decode(), requests.floor, len(of_rows)]}
                    if requests is not None
                    else {}
                ),
                "request": self.request
                and [base64.b64encode(self.request.client).decode(), self.request.sequence, self.request.floor],
            }
        ).encode()
        return b"".join((_BULK_HEAD.pack(len(head)), head, of_rows, self.cells))

    @staticmethod
    def decode(payload: bytes) -> BulkRecord:
        (head_bytes,) = _BULK_HEAD.unpack_from(payload)
        head_stop = _BULK_HEAD.size + head_bytes
        fields = json.loads(payload[_BULK_HEAD.size : head_stop])
        request = None
        if fields["request"] is not None:
            client, sequence, floor = fields["request"]
            request = RequestId(base64.b64decode(client), sequence, floor)
        row_requests = None
        cells_start = head_stop
        if "requests" in fields:
            client, floor, byte_count = fields["requests"]
            cells_start += byte_count
            row_requests = RowRequests.decode(base64.b64decode(client), floor, payload[head_stop:cells_start])
        file_number, file_bytes, file_checksum = fields["file"]
        return BulkRecord(
            stamp=fields["stamp"],
            cell_count=fields["cell_count"],
            row_count=fields["row_count"],
            first_row=base64.b64decode(fields["first_row"]),
            request=request,
            file_number=file_number,
            file_bytes=file_bytes,
            file_checksum=file_checksum,
            cells=payload[cells_start:],
            commit_number=fields.get("commit", 0),
            row_requests=row_requests,
        )


def number_cells(cells: Iterable[UnnumberedCell], write_number: int) -> list[Cell]:
    """Adds the write number to the cells; keeps their order."""
    negative = -write_number
    return [(qualifier, timestamp, negative, kind, value) for qualifier, timestamp, kind, value in cells]
