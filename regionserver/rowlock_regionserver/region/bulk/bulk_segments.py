"""Makes memstore segments of an arranged bulk batch."""

from __future__ import annotations

from collections.abc import Sequence

from rowlock_regionserver.arrow.allocations import shares_kept_alive
from rowlock_regionserver.memstore.arrow_segment import ArrowSegment
from rowlock_regionserver.memstore.lines_segment import LinesSegment
from rowlock_regionserver.memstore.memstore import BulkSegment
from rowlock_regionserver.region.bulk.arranged import FamilyParts
from rowlock_regionserver.region.bulk.bulk_cells import stamped

_ANY_NUMBER = 1


class PreparedSegments:
    """The segments of an arranged batch before it has its write number and its stamp: lines only need these."""

    def __init__(self, parts: FamilyParts, stamp: int) -> None:
        """`stamp`: any that is not later than that of the batch."""
        self._parts = parts
        self._stamp = stamp
        has_cells = any(part.cells is not None for part in parts.values())
        # The number is in each row of a table of cells, so these are made when it is known.
        self._lines = None if has_cells else _all_lines(segments_of(parts, _ANY_NUMBER, stamp))
        timestamps = {number: part.lines.timestamps for number, part in parts.items() if part.lines is not None}
        # Families all of whose lines get the stamp, and whether some line of another family does.
        self._stamped = {number for number, of_lines in timestamps.items() if of_lines is None}
        self._is_mixed = any(of_lines is not None and of_lines.null_count for of_lines in timestamps.values())

    def numbered(self, write_number: int, stamp: int) -> list[tuple[int, BulkSegment]]:
        """Returns (family number, segment). O(families), unless there are cells, or lines with and without timestamps
        whose stamp is another than expected.
        """
        if self._lines is None or (self._is_mixed and stamp != self._stamp):
            return segments_of(self._parts, write_number, stamp)
        return [
            (number, segment.renumbered(write_number, stamp if number in self._stamped else None))
            for number, segment in self._lines
        ]


def _all_lines(segments: Sequence[tuple[int, BulkSegment]]) -> list[tuple[int, LinesSegment]]:
    lines = [(number, segment) for number, segment in segments if isinstance(segment, LinesSegment)]
    assert len(lines) == len(segments), "a part without cells became a segment of cells"
    return lines


def segments_of(parts: FamilyParts, write_number: int, stamp: int) -> list[tuple[int, BulkSegment]]:
    """Returns (family number, segment) of all lines and of all cells.

    The parts of one message share its memory, so each segment counts its share of it.
    """
    lines = [
        (number, part.lines.numbered(write_number, stamp)) for number, part in parts.items() if part.lines is not None
    ]
    tables = [
        (number, stamped(part.cells, write_number, stamp))
        for number, part in parts.items()
        if part.cells is not None and part.cells.num_rows
    ]
    shares = shares_kept_alive(
        [[of_family.rows, *of_family.columns] for _, of_family in lines]
        + [[chunk for chunked in table.columns for chunk in chunked.chunks] for _, table in tables]
    )
    return [
        *((number, LinesSegment(each, share)) for (number, each), share in zip(lines, shares, strict=False)),
        *(
            (number, ArrowSegment(table, share))
            for (number, table), share in zip(tables, shares[len(lines) :], strict=True)
        ),
    ]
