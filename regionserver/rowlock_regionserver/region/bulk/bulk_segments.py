"""Makes memstore segments of an arranged bulk batch."""

from __future__ import annotations

from rowlock_regionserver.arrow.allocations import shares_kept_alive
from rowlock_regionserver.memstore.arrow_segment import ArrowSegment
from rowlock_regionserver.memstore.lines_segment import LinesSegment
from rowlock_regionserver.memstore.memstore import BulkSegment
from rowlock_regionserver.region.bulk.arranged import FamilyParts
from rowlock_regionserver.region.bulk.bulk_cells import stamped
from rowlock_regionserver.region.bulk.family_lines import FamilyLines

_ANY_NUMBER = 1


class PreparedSegments:
    """The segments of an arranged batch before it has its write number and its stamp: then they only need these."""

    def __init__(self, parts: FamilyParts, stamp: int) -> None:
        """`stamp`: the expected one."""
        self._parts = parts
        self._stamp = stamp
        self._segments = segments_of(parts, _ANY_NUMBER, stamp)
        # Of each segment: how many lines or cells get the stamp, and how many there are.
        counts = [(len(lines), _null_count(lines)) for part in parts.values() if (lines := part.lines) is not None]
        counts += [
            (cells.num_rows, cells.column("timestamp").null_count)
            for part in parts.values()
            if (cells := part.cells) is not None and cells.num_rows
        ]
        self._are_stamped = [null_count == count for count, null_count in counts]
        self._is_mixed = any(0 < null_count < count for count, null_count in counts)

    def numbered(self, write_number: int, stamp: int) -> list[tuple[int, BulkSegment]]:
        """Returns (family number, segment).

        Quick: O(families), and some ns a cell that is not in a line. But if the stamp is another than expected, and
        some lines or cells of a segment have timestamps of their own, it makes all segments again.
        """
        if self._is_mixed and stamp != self._stamp:
            return segments_of(self._parts, write_number, stamp)
        return [
            (number, segment.renumbered(write_number, stamp if is_stamped else None))
            for (number, segment), is_stamped in zip(self._segments, self._are_stamped, strict=True)
        ]


def _null_count(lines: FamilyLines) -> int:
    return len(lines) if lines.timestamps is None else lines.timestamps.null_count


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
