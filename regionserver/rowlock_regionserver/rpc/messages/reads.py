"""Gets and scans: converts messages to selections and plans."""

from __future__ import annotations

from rowlock_proto.v1 import region_pb2, types_pb2

from rowlock_regionserver.config import MIB, Config
from rowlock_regionserver.errors import InvalidRequestError, LimitExceededError
from rowlock_regionserver.operations import (
    EVERY_CELL,
    EVERYTHING,
    ColumnSelector,
    FormColumn,
    FormPart,
    ScanPlan,
    Selection,
)
from rowlock_regionserver.rpc.messages.enums import member_of
from rowlock_regionserver.rpc.messages.filters import cell_filter, row_filter

# The largest size of one scan answer; a larger size that a client requests is reduced to this.
SCAN_BATCH_BYTES_MAX = 16 * MIB
SCAN_BATCH_ROWS_MAX = 1_000_000
FORM_COLUMNS_MAX = 10_000
# Greater than any count that a scan can reach, and within 64 signed bits.
_COUNT_MAX = (1 << 63) - 1


def rows_of(message: region_pb2.Get, config: Config) -> tuple[bytes, ...]:
    """Returns the rows that a get names, in its order."""
    rows = tuple(message.rows)
    if not rows:
        raise InvalidRequestError("the get names no row; set Get.rows")
    if len(rows) > config.rows_per_request_max:
        raise LimitExceededError(
            f"the get names {len(rows)} rows, more than rows_per_request_max = {config.rows_per_request_max}; send "
            "several gets",
            limit="rows_per_request_max",
            limit_value=config.rows_per_request_max,
            found=len(rows),
        )
    return rows


def selection(message: region_pb2.Get | region_pb2.ScanRequest, config: Config) -> Selection:
    """Returns which cells of each row are read. The region validates it (families, time range)."""
    columns = message.columns
    has_range = message.HasField("time_range")
    has_where = message.HasField("where")
    has_cells = message.HasField("cells")
    versions = message.versions
    if not (columns or has_range or has_where or has_cells or versions > 1):
        return EVERYTHING
    return Selection(
        columns=tuple([_column(column) for column in columns]),
        time_start=message.time_range.start,
        time_stop=message.time_range.stop,
        versions=versions or 1,
        where=row_filter(message.where, config.filter_depth_max) if has_where else None,
        cells=cell_filter(message.cells) if has_cells else EVERY_CELL,
    )


def _column(message: types_pb2.Column) -> ColumnSelector:
    return ColumnSelector(message.family, message.qualifier if message.HasField("qualifier") else None)


def scan_plan(message: region_pb2.ScanRequest, config: Config) -> ScanPlan:
    """Converts the scan to a value. Reduces a batch size beyond the server's limits, and does not refuse it."""
    if len(message.ranges) > config.rows_per_request_max:
        raise LimitExceededError(
            f"the scan names {len(message.ranges)} ranges, more than rows_per_request_max = "
            f"{config.rows_per_request_max}; send several scans",
            limit="rows_per_request_max",
            limit_value=config.rows_per_request_max,
            found=len(message.ranges),
        )
    has_form = message.HasField("row_form")
    return ScanPlan(
        selection=selection(message, config),
        ranges=tuple([(each.start, each.stop) for each in message.ranges]),
        row_limit=min(message.row_limit, _COUNT_MAX),
        reverse=message.reverse,
        batch_bytes=min(message.batch_bytes, SCAN_BATCH_BYTES_MAX) or config.scan_batch_bytes,
        batch_rows=min(message.batch_rows, SCAN_BATCH_ROWS_MAX) or config.scan_batch_rows,
        row_form=_row_form(message.row_form) if has_form else None,
        fixed_size=message.row_form.fixed_size,
        compressed=message.row_form.compressed,
        without_keys=message.row_form.without_keys,
        newest_rows=message.newest_rows and not has_form,
        lines=message.lines and not has_form,
    )


def _row_form(message: region_pb2.RowForm) -> tuple[FormColumn, ...]:
    if len(message.columns) > FORM_COLUMNS_MAX:
        raise LimitExceededError(
            f"the row form has {len(message.columns)} columns, more than {FORM_COLUMNS_MAX}; scan the columns in "
            "several scans",
            limit="row_form_columns_max",
            limit_value=FORM_COLUMNS_MAX,
            found=len(message.columns),
        )
    return tuple(
        [
            FormColumn(column.family, column.qualifier, member_of(FormPart, column.part, "RowFormColumn.part"))
            for column in message.columns
        ]
    )
