# Made from client/rowlock/aio/_tables/ranges.py by tools/async_to_sync.py: change that, then `make faces`.
"""Deletes the rows of ranges (threads)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, cast

from rowlock_proto.shown_names import row_text
from rowlock_proto.v1 import region_pb2, types_pb2

from rowlock._codec.columns import Text
from rowlock._core.view import View
from rowlock._tables.sending import send_lines
from rowlock._transport.servers import Servers
from rowlock.errors import ClosedError, InvalidArgumentError, PartlyDeletedError, RowlockError
from rowlock.filters import Filter

if TYPE_CHECKING:
    from rowlock.scan import Scan

# Rows that one message deletes.
PIECE_ROWS = 1000


def check_is_bounded(scan: Scan[Text]) -> None:
    """Raises InvalidArgumentError if no bound is given, or only empty ones."""
    if scan.is_unbounded:
        raise InvalidArgumentError(
            "no range is given: pass start, stop, prefix or ranges, not empty; truncate_table() deletes all rows"
        )


def delete_rows(
    servers: Servers,
    view: View[Text],
    scan: Scan[Text],
    where: Filter | None,
    on_progress: Callable[[int], None] | None,
) -> int:
    """Deletes the rows of a scan, in pieces; returns how many. Raises PartlyDeletedError.

    where: the scan's filter; a row that no longer matches it is not deleted.
    """
    count = 0
    reached = b""
    try:
        with scan:
            for batch in scan.form_batches([]):
                rows = cast(list[bytes], batch.column(0).to_pylist())  # never null
                for start in range(0, len(rows), PIECE_ROWS):
                    piece = rows[start : start + PIECE_ROWS]
                    reached = piece[0]
                    send = send_lines(servers, view, {row: _deletion(row, where) for row in piece})
                    count += send.finish() - send.unmet_count
                    if on_progress is not None:
                        on_progress(count)
    except RowlockError as error:
        if not reached or isinstance(error, ClosedError):
            # Nothing was sent yet, or the caller has closed the client.
            raise
        raise PartlyDeletedError(
            f"{count} rows of table {view.table!r} were deleted, and not all from row {row_text(reached)} on: "
            f"{error.message}. The same call again deletes the others",
            row_count=count,
            row=reached,
            table=view.table,
        ) from error
    return count


def _deletion(row: bytes, where: Filter | None) -> region_pb2.RowMutation:
    mutation = region_pb2.RowMutation(row=row)
    mutation.changes.add().delete.kind = types_pb2.Delete.KIND_ROW
    if where is not None:
        mutation.condition.filter.CopyFrom(where.message)
    return mutation
