"""Checks of what a bulk write has staged, before its commit."""

from __future__ import annotations

from collections.abc import Sequence

from rowlock_proto.shown_names import row_text

from rowlock_regionserver.errors import CorruptionError, InvalidRequestError
from rowlock_regionserver.host.bulk_write import BulkWrite
from rowlock_regionserver.host.staging import Staging
from rowlock_regionserver.region.changed_rows import Ranges
from rowlock_regionserver.table import Table


def check_ranges_and_families(write: BulkWrite, table: Table, ranges: Ranges) -> None:
    """Raises InvalidRequestError for rows outside of the ranges, and for a family that was dropped."""
    for each in write.contents.every_batch():
        unknown = set(each.family_numbers) - set(table.name_by_number)
        if unknown:
            raise InvalidRequestError(
                f"a column family of the bulk write of table {table.name!r} was dropped since; nothing was committed",
                table=table.name,
            )
        first, last = each.record.first_row, each.last_row
        if not any(start <= first and (not stop or last < stop) for start, stop in ranges):
            raise InvalidRequestError(
                f"rows from {row_text(first)} to {row_text(last)} of the bulk write are not all in the range that "
                "it may write; nothing was committed",
                table=table.name,
            )


def check_none_is_lost(write: BulkWrite, staging: Staging, write_number: int, numbers: Sequence[int]) -> None:
    """Raises CorruptionError if a batch that was answered with one of these numbers is not there.

    write_number: of the bulk write for which they were staged; 0: of this one. The session may have another one of the
    table by now: a start ends a bulk write whose files are damaged, but not its session if that has other ones. Raises
    InvalidRequestError if it has, also without numbers.
    """
    is_another = write_number not in (0, write.write.write_number)
    lost = numbers if is_another else write.contents.missing(numbers)
    if lost:
        raise CorruptionError(
            staging.batch_path(write_number or write.write.write_number, lost[0]),
            0,
            f"a staged batch of the bulk write of table {write.write.table!r} ({len(lost)} of {len(numbers)} are lost)",
            "no file",
            what_to_do="nothing was committed: abort the bulk write, and write all of it again",
        )
    if is_another:
        raise InvalidRequestError(
            f"bulk write {write_number} of table {write.write.table!r} has ended, and its session has opened another "
            "one; nothing was committed",
            table=write.write.table,
        )
