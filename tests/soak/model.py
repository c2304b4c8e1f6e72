"""What a slice of the table must hold: the live versions of its cells, and the comparison of an answer with them.

One thread writes a slice, so the model needs no lock and knows the answer of each call. A row is replaced and never
changed: a copy of the slice's dictionary is a moment of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from rowlock import Cell

# In families of one version the server gives the timestamps, which the model does not know.
VERSIONS: Mapping[bytes, int] = {b"f": 1, b"g": 3, b"e": 2, b"t": 1, b"x": 1}
EXPIRING = b"e"
STABLE_FAMILIES = ("e", "f", "g", "t")  # x comes and goes
UNKNOWN = -1
# The newest version first: (timestamp, value).
Versions = tuple[tuple[int, bytes], ...]
Row = Mapping[bytes, Versions]  # by family:qualifier
DIFFERENCES_SHOWN = 5


def family_of(column: bytes) -> bytes:
    return column[: column.index(b":")]


class SliceModel:
    """The live versions of a slice, expired ones too: the state that its writes lead to. Used by one thread."""

    def __init__(self) -> None:
        self.rows: dict[bytes, Row] = {}

    def put(self, row: bytes, column: bytes, value: bytes, timestamp: int = UNKNOWN) -> None:
        columns = dict(self.rows.get(row, {}))
        family = family_of(column)
        versions = {at: old for at, old in columns.get(column, ()) if at != timestamp} | {timestamp: value}
        columns[column] = tuple(sorted(versions.items(), reverse=True)[: VERSIONS[family]])
        self.rows[row] = columns

    def delete(self, row: bytes, target: bytes | None, timestamp: int | None = None) -> None:
        """Deletes a column, a family or the row, up to a timestamp."""

        def remains(column: bytes, at: int) -> bool:
            is_meant = target is None or column == target or family_of(column) == target
            return not is_meant or (timestamp is not None and at > timestamp)

        self._keep(row, remains)

    def delete_version(self, row: bytes, column: bytes, timestamp: int | None = None) -> None:
        """Deletes the version at the timestamp; None: the newest."""
        versions = self.value_versions(row, column)
        named = timestamp if timestamp is not None else versions[0][0] if versions else UNKNOWN
        self._keep(row, lambda other, at: other != column or at != named)

    def delete_families(self, family: bytes) -> None:
        """Forgets a family that was dropped."""
        for row in list(self.rows):
            self.delete(row, family)

    def delete_rows(self, start: bytes, stop: bytes) -> None:
        """Forgets the rows of [start, stop), which were replaced."""
        for row in [row for row in self.rows if start <= row < stop]:
            del self.rows[row]

    def _keep(self, row: bytes, remains: object) -> None:
        assert callable(remains)
        columns = {
            column: kept
            for column, versions in self.rows.get(row, {}).items()
            if (kept := tuple(version for version in versions if remains(column, version[0])))
        }
        if columns:
            self.rows[row] = columns
        else:
            self.rows.pop(row, None)

    def value_versions(self, row: bytes, column: bytes) -> Versions:
        return self.rows.get(row, {}).get(column, ())

    def value(self, row: bytes, column: bytes) -> bytes | None:
        """Returns the newest value of a column that does not expire."""
        versions = self.value_versions(row, column)
        return versions[0][1] if versions else None

    def moment(self) -> Mapping[bytes, Row]:
        """Returns the slice as it is now."""
        return dict(self.rows)


class JoinedModel:
    """The models of all slices as one, by the prefix of their rows. Used while no slice is changed otherwise."""

    def __init__(self, slices: Mapping[bytes, SliceModel]) -> None:
        """The prefixes have one length."""
        self._slices = slices
        (self._prefix_length,) = {len(prefix) for prefix in slices}

    def put(self, row: bytes, column: bytes, value: bytes, timestamp: int = UNKNOWN) -> None:
        self._slice(row).put(row, column, value, timestamp)

    def delete(self, row: bytes, target: bytes | None, timestamp: int | None = None) -> None:
        self._slice(row).delete(row, target, timestamp)

    def delete_rows(self, start: bytes, stop: bytes) -> None:
        for model in self._slices.values():
            model.delete_rows(start, stop)

    def _slice(self, row: bytes) -> SliceModel:
        return self._slices[row[: self._prefix_length]]


@dataclass(frozen=True, slots=True)
class Read:
    """When an answer judged what has expired: at a moment between these two, on the clock of client and server."""

    first_ms: int
    last_ms: int
    time_to_live_ms: int

    def has_surely(self, column: bytes, timestamp: int) -> bool:
        return family_of(column) != EXPIRING or timestamp + self.time_to_live_ms > self.last_ms

    def may_have(self, column: bytes, timestamp: int) -> bool:
        return family_of(column) != EXPIRING or timestamp + self.time_to_live_ms > self.first_ms


def rows_of(cells: Iterable[Cell[bytes]]) -> Iterator[tuple[bytes, dict[bytes, Versions]]]:
    """Yields the rows of an answer in its order. Timestamps that the model does not know are left out."""
    row, columns = b"", dict[bytes, Versions]()
    for cell in cells:
        if cell.row != row and columns:
            yield row, columns
            columns = {}
        row = cell.row
        at = UNKNOWN if VERSIONS[family_of(cell.column)] == 1 else cell.timestamp
        columns[cell.column] = (*columns.get(cell.column, ()), (at, cell.value))
    if columns:
        yield row, columns


def differences(
    expected: Mapping[bytes, Row],
    found: Sequence[tuple[bytes, Row]],
    read: Read,
    *,
    bounds: tuple[bytes, bytes] = (b"", b"\xff"),
    reverse: bool = False,
    families: Sequence[str] = (),
) -> list[str]:
    """Returns how an answer differs from the rows of a moment in [start, stop), in these families or in all."""
    order = [row for row, _ in found]
    if order != sorted(set(order), reverse=reverse):
        return [f"rows are out of order or double: {order}"]
    wanted = {name.encode() for name in families}
    answers = dict(found)
    told: list[str] = []
    for row in sorted({*answers, *(row for row in expected if bounds[0] <= row < bounds[1])}):
        columns = {
            column: versions
            for column, versions in expected.get(row, {}).items()
            if not wanted or family_of(column) in wanted
        }
        if answers.get(row) == columns:
            continue
        told += row_differences(row, columns, answers.get(row, {}), read)
        if len(told) >= DIFFERENCES_SHOWN:
            break
    return told


def row_differences(row: bytes, expected: Row, found: Row, read: Read) -> list[str]:
    told = []
    for column in sorted({*expected, *found}):
        live, seen = expected.get(column, ()), found.get(column, ())
        least = tuple(version for version in live if read.has_surely(column, version[0]))
        most = tuple(version for version in live if read.may_have(column, version[0]))
        if not (seen[: len(least)] == least and seen == most[: len(seen)]):
            told.append(f"row {row!r}, {column!r}: found {seen}, expected {least if least == most else (least, most)}")
    return told


def live_bytes(rows: Mapping[bytes, Row], read: Read) -> int:
    """Returns the bytes of all cells that a read sees: keys, columns, 8 of each timestamp, values."""
    return sum(
        len(row) + len(column) + 8 + len(value)
        for row, columns in rows.items()
        for column, versions in columns.items()
        for timestamp, value in versions
        if read.has_surely(column, timestamp)
    )
