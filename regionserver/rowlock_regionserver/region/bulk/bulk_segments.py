"""Makes memstore segments of an arranged bulk batch."""

from __future__ import annotations

import pyarrow as pa

from rowlock_regionserver.arrow.allocations import shares_kept_alive
from rowlock_regionserver.arrow.columns import Column
from rowlock_regionserver.arrow.lines import Lines
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
        counts = [(_stamped_count(each), len(each)) for _, each in _lines_and_cells(parts)]
        self._are_stamped = [stamped_count == count for stamped_count, count in counts]
        self._is_mixed = any(0 < stamped_count < count for stamped_count, count in counts)

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


def segments_of(parts: FamilyParts, write_number: int, stamp: int) -> list[tuple[int, BulkSegment]]:
    """Returns (family number, segment) of all lines and of all cells.

    The parts of one message share its memory, so each segment counts its share of it.
    """
    numbered = [
        (
            number,
            each.numbered(write_number, stamp) if isinstance(each, FamilyLines) else stamped(each, write_number, stamp),
        )
        for number, each in _lines_and_cells(parts)
    ]
    shares = shares_kept_alive([_arrays(each) for _, each in numbered])
    return [
        (number, LinesSegment(each, share) if isinstance(each, Lines) else ArrowSegment(each, share))
        for (number, each), share in zip(numbered, shares, strict=True)
    ]


def _lines_and_cells(parts: FamilyParts) -> list[tuple[int, FamilyLines | pa.Table]]:
    """Returns (family number, what becomes a segment): first all lines, then all cells."""
    lines = [(number, part.lines) for number, part in parts.items() if part.lines is not None]
    cells = [(number, part.cells) for number, part in parts.items() if part.cells is not None and part.cells.num_rows]
    return [*lines, *cells]


def _stamped_count(each: FamilyLines | pa.Table) -> int:
    """Returns how many of the lines or cells have no timestamp of their own."""
    timestamps = each.timestamps if isinstance(each, FamilyLines) else each.column("timestamp")
    return len(each) if timestamps is None else timestamps.null_count


def _arrays(numbered: Lines | pa.Table) -> list[Column]:
    if isinstance(numbered, Lines):
        return [numbered.rows, *numbered.columns]
    return [chunk for chunked in numbered.columns for chunk in chunked.chunks]
