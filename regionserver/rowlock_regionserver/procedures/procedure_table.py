"""The table as a procedure sees it: one row of it, under the row's lock.

Its methods are those of the client's Table with the same names, so a procedure can be tried out on a table of a client.
Changes are collected. The server makes them when the procedure has returned; until then only the procedure sees them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from rowlock_proto.shown_names import row_text

from rowlock_regionserver.procedures.messages import ChangeKind, Field

Name = str | bytes
# (family, qualifier, value) of stored cells.
StoredCells = Sequence[tuple[bytes, bytes, bytes]]
# Reads columns (family, qualifier or None for the whole family) from the server; without any, the row.
Read = Callable[[Sequence[tuple[bytes, bytes | None]]], StoredCells]

_COUNTER_BYTES = 8
_COUNTER_MIN, _COUNTER_MAX = -(1 << 63), (1 << 63) - 1


class AnotherRowError(Exception):
    """A procedure may read and change only the row for which it was called."""


class ProcedureTable:
    """The table of a call. Use it in the procedure's own thread, and only until the procedure returns.

    Rows, columns (`family:qualifier`) and values are bytes or str; str is encoded as UTF-8. Results are bytes. Each
    method takes the row for which the procedure was called, and raises AnotherRowError for any other.
    """

    def __init__(self, name: str, row: bytes, read: Read) -> None:
        self._name = name
        self._row = row
        self._read = read
        self._is_ended = False
        self._changes: list[tuple[bytes, bytes, bytes, bytes]] = []
        # What this call has done so far: new values by column, None if deleted; and families, or the row, that it
        # deleted before.
        self._own: dict[tuple[bytes, bytes], bytes | None] = {}
        self._deleted_families: set[bytes] = set()
        self._is_row_deleted = False

    @property
    def name(self) -> str:
        """The table's name."""
        return self._name

    def row(self, row: Name, columns: Sequence[Name] | None = None) -> dict[bytes, bytes]:
        """Returns the newest value of each column, {column: value}, with the changes of this call; {} if absent.

        columns: columns and whole families (`family`) to read; None: all.
        """
        self._check(row)
        if isinstance(columns, str | bytes):
            raise TypeError(f"columns must be a list of columns, not {type(columns).__name__}")
        if columns is not None and not columns:
            return {}
        wanted = [_column_or_family(column) for column in columns or ()]
        found = {
            (family, qualifier): value
            for family, qualifier, value in self._read(wanted)
            if not self._is_row_deleted and family not in self._deleted_families
        }
        for (family, qualifier), value in self._own.items():
            if not wanted or (family, qualifier) in wanted or (family, None) in wanted:
                if value is None:
                    found.pop((family, qualifier), None)
                else:
                    found[family, qualifier] = value
        return {family + b":" + qualifier: value for (family, qualifier), value in sorted(found.items())}

    def exists(self, row: Name) -> bool:
        """Returns whether the row has a cell. Reads the row."""
        return bool(self.row(row))

    def counter(self, row: Name, column: Name) -> int:
        """Returns a counter's number, 0 if it is missing. Raises ValueError if the value is not 8 bytes."""
        value = self.row(row, [b":".join(_column(column))]).get(b":".join(_column(column)))
        if value is None:
            return 0
        if len(value) != _COUNTER_BYTES:
            raise ValueError(f"{column!r} is not a counter: it has {len(value)} bytes, not {_COUNTER_BYTES}")
        return int.from_bytes(value, "big", signed=True)

    def put(self, row: Name, data: Mapping[Name, Name] | Mapping[str, Name] | Mapping[bytes, Name]) -> None:
        """Sets columns, {column: value}, at least one."""
        self._check(row)
        if not data:
            raise ValueError("no column is given; a row needs at least one")
        for column, value in [(_column(name), _bytes("a value", value)) for name, value in data.items()]:
            self._own[column] = value
            self._changes.append((ChangeKind.PUT.value, *column, value))

    def delete(self, row: Name, columns: Sequence[Name] | None = None) -> None:
        """Deletes columns (`family:qualifier`), whole families (`family`), or the row if columns is None."""
        self._check(row)
        if columns is None:
            self._own.clear()
            self._is_row_deleted = True
            self._changes.append((ChangeKind.DELETE_ROW.value, b"", b"", b""))
            return
        if isinstance(columns, str | bytes):
            raise TypeError(f"columns must be a list of columns, not {type(columns).__name__}")
        for family, qualifier in [_column_or_family(column) for column in columns]:
            if qualifier is None:
                self._deleted_families.add(family)
                self._own = {column: value for column, value in self._own.items() if column[0] != family}
                self._changes.append((ChangeKind.DELETE_FAMILY.value, family, b"", b""))
            else:
                self._own[family, qualifier] = None
                self._changes.append((ChangeKind.DELETE_COLUMN.value, family, qualifier, b""))

    def increment(self, row: Name, column: Name, amount: int = 1) -> int:
        """Adds an amount, which may be negative, to a signed 64-bit counter. Returns the new number.

        A missing counter counts as 0. Raises ValueError if the value is not 8 bytes, OverflowError if the sum does not
        fit.
        """
        number = self.counter(row, column) + amount
        if not _COUNTER_MIN <= number <= _COUNTER_MAX:
            raise OverflowError(f"{column!r} would leave 64 signed bits")
        self.put(row, {column: number.to_bytes(_COUNTER_BYTES, "big", signed=True)})
        return number

    def _end(self) -> list[Field]:
        """Ends the use of the table; returns the fields of its changes."""
        self._is_ended = True
        return [field for change in self._changes for field in change]

    def _check(self, row: Name) -> None:
        encoded = _bytes("a row", row)
        if encoded != self._row:
            raise AnotherRowError(
                f"the procedure was called for row {row_text(self._row)}, and may not read or change row "
                f"{row_text(encoded)}"
            )
        if self._is_ended:
            raise RuntimeError("the procedure has returned; its table can't be used any more")


def _bytes(what: str, name: Name) -> bytes:
    if isinstance(name, str):
        return name.encode()
    if not isinstance(name, bytes):
        raise TypeError(f"{what} must be bytes or str, not {type(name).__name__}")
    return name


def _column(column: Name) -> tuple[bytes, bytes]:
    family, qualifier = _column_or_family(column)
    if qualifier is None:
        raise ValueError(f"{column!r} is not a column; a column is family:qualifier")
    return family, qualifier


def _column_or_family(column: Name) -> tuple[bytes, bytes | None]:
    family, colon, qualifier = _bytes("a column", column).partition(b":")
    return family, qualifier if colon else None
