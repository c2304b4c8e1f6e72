"""RowValues: rows of values without timestamps, the hot path of gets and puts.

A row of ten columns takes a fraction of the time of protobuf's objects for cells or puts. The answer of a get is
encoded by hand. Its bytes are those of a PointAnswers message:

    1 answers, a PointAnswer     1 id
                                 2 get, a GetAnswer     2 values, RowValues     1 columns
                                                                                2 lengths
                                                                                3 data
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import lru_cache
from itertools import accumulate, pairwise

from google.protobuf.message import DecodeError
from rowlock_proto.v1.region_pb2 import ColumnSet, RowValues
from rowlock_proto.varints import varint

from rowlock_regionserver.errors import InvalidRequestError
from rowlock_regionserver.operations import AnswerCell, Put
from rowlock_regionserver.row_line import RowLine
from rowlock_regionserver.row_puts import PutColumns, RowPuts

# Lists of columns are kept, so that rows of the same columns share the work: this many lists, each of at most this many
# bytes. In answers these are the bytes of the qualifiers, and columns are bounded too; in puts those of the whole list.
_LISTS_KEPT = 256
_COLUMNS_MAX = 64
_COLUMN_BYTES_MAX = 2048
# A larger answer has cells.
_ANSWER_BYTES_MAX = 64 * 1024
_LENGTH_BYTES = 4

# Tags: the number of a field, and 0 for a varint, 2 for a length and as many bytes.
_ANSWERS, _ID, _GET, _VALUES = b"\x0a", b"\x08", b"\x12", b"\x12"
_COLUMNS, _LENGTHS, _DATA = b"\x0a", b"\x12", b"\x1a"

_varint = lru_cache(maxsize=1024)(varint)
_NO_COLUMNS = _VALUES + varint(0)


def values_answer(request_id: int, rows: Sequence[Sequence[AnswerCell]]) -> bytes | None:
    """Encodes the answer of a get whose rows have one cell a column. Returns None if it must have them as cells."""
    encoded: list[bytes] = []
    byte_count = 0
    for cells in rows:
        if isinstance(cells, RowLine):
            row = _line_values(cells)
        else:
            row = _row_values(cells) if cells else _NO_COLUMNS
        if row is None:
            return None
        byte_count += len(row)
        if byte_count > _ANSWER_BYTES_MAX:
            return None
        encoded.append(row)
    get = encoded[0] if len(encoded) == 1 else b"".join(encoded)
    answer = _ID + varint(request_id) + _GET + _varint(len(get)) + get
    return _ANSWERS + _varint(len(answer)) + answer


def _row_values(cells: Sequence[AnswerCell]) -> bytes | None:
    """Returns a field with the row's RowValues; None if the row is too large for it."""
    # Judged before the columns are kept, as what is kept stays in memory.
    if len(cells) > _COLUMNS_MAX or len(b"".join([cell[1] for cell in cells])) > _COLUMN_BYTES_MAX:
        return None
    columns = _columns_field(tuple([(family, qualifier) for family, qualifier, _, _ in cells]))
    values = [cell[3] for cell in cells]
    return _encoded(columns, values, [len(value) for value in values])


def _line_values(line: RowLine) -> bytes | None:
    """Returns the same of a row that is one line."""
    if len(line.qualifiers) > _COLUMNS_MAX or len(b"".join(line.qualifiers)) > _COLUMN_BYTES_MAX:
        return None
    return _encoded(_line_columns_field(line.family, line.qualifiers), line.values, line.value_lengths)


def _encoded(columns: bytes, values: Sequence[bytes], value_lengths: Sequence[int]) -> bytes | None:
    if sum(value_lengths) > _ANSWER_BYTES_MAX:
        return None
    lengths = struct.pack(f"<{len(values)}I", *value_lengths)
    data = b"".join(values)
    row = columns + _LENGTHS + _varint(len(lengths)) + lengths + _DATA + _varint(len(data)) + data
    return _VALUES + _varint(len(row)) + row


@lru_cache(maxsize=_LISTS_KEPT)
def _columns_field(columns: tuple[tuple[bytes, bytes], ...]) -> bytes:
    """Returns the field with these columns, by family and qualifier."""
    return _field_of([family + b":" + qualifier for family, qualifier in columns])


@lru_cache(maxsize=_LISTS_KEPT)
def _line_columns_field(family: bytes, qualifiers: tuple[bytes, ...]) -> bytes:
    """Returns the same of columns of one family."""
    return _field_of([family + b":" + qualifier for qualifier in qualifiers])


def _field_of(names: list[bytes]) -> bytes:
    listed = ColumnSet(columns=names).SerializeToString()
    return _COLUMNS + varint(len(listed)) + listed


def puts_count(message: RowValues) -> int:
    """Returns how many puts `puts_of` makes of a valid message."""
    return len(message.lengths) // _LENGTH_BYTES


def puts_of(message: RowValues) -> Sequence[Put]:
    """Returns a put of each value: RowPuts, if they are of different columns of one family.

    Raises InvalidRequestError if the message contradicts itself.
    """
    listed, data = message.columns, message.data
    count = puts_count(message)
    columns = _kept_columns(listed, count) if len(listed) <= _COLUMN_BYTES_MAX else _columns_of(listed, count)
    if len(message.lengths) != _LENGTH_BYTES * count:
        raise _contradictory(f"{len(message.lengths)} bytes of lengths, which have {_LENGTH_BYTES} each")
    lengths = struct.unpack(f"<{count}I", message.lengths)
    bounds = [0, *accumulate(lengths)]
    if bounds[-1] != len(data):
        raise _contradictory(f"{len(data)} bytes, and values that end at {bounds[-1]}")
    values = [data[start:stop] for start, stop in pairwise(bounds)]
    if isinstance(columns, PutColumns):
        return RowPuts(columns, values, len(data), max(lengths))
    return tuple([Put(family, qualifier, value) for (family, qualifier), value in zip(columns, values, strict=True)])


def _columns_of(listed: bytes, count: int) -> PutColumns | Sequence[tuple[bytes, bytes]]:
    """Returns the `count` columns of a serialized ColumnSet.

    They are pairs of family and qualifier if a column occurs twice, or if there are several families.
    """
    try:
        names = ColumnSet.FromString(listed).columns
    except DecodeError:
        raise _contradictory("its list of columns is no ColumnSet") from None
    if len(names) != count:  # Else a message could have few lengths, by which its work is bounded, and many columns.
        raise _contradictory(f"{len(names)} columns, and lengths of {count} values")
    split = [column.partition(b":") for column in names]
    if not all(colon for _, colon, _ in split):
        raise _contradictory("a column without a colon between family and qualifier")
    columns = [(family, qualifier) for family, _, qualifier in split]
    if len({family for family, _ in columns}) == 1 and len(set(columns)) == count:
        return PutColumns(columns[0][0], [qualifier for _, qualifier in columns])
    return tuple(columns)


_kept_columns = lru_cache(maxsize=_LISTS_KEPT)(_columns_of)


def _contradictory(problem: str) -> InvalidRequestError:
    return InvalidRequestError(f"the values of a row can't be read: {problem}; region.proto has their form")
