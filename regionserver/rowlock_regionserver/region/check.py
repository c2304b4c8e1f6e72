"""CHECK: validates what a region is asked to do by its content alone, so that a refusal changes nothing.

It is the first step of a write. Gets are checked too, and the size of their answers.
"""

from __future__ import annotations

from collections.abc import Mapping

from rowlock_proto.shown_names import column_text, name_text, row_text

from rowlock_regionserver.cells import TIMESTAMP_MAX, Family
from rowlock_regionserver.config import Config
from rowlock_regionserver.errors import (
    FamilyNotFoundError,
    InvalidRequestError,
    LimitExceededError,
    NotServingRegionError,
    listed,
)
from rowlock_regionserver.operations import (
    Change,
    CompareOp,
    Delete,
    DeleteKind,
    Existence,
    Increment,
    Put,
    RowMutation,
)
from rowlock_regionserver.row_puts import RowPuts
from rowlock_regionserver.scan.filters import FAMILY_BYTES_SHOWN, check_filter
from rowlock_regionserver.table import Table

INT64_MIN, INT64_MAX = -(1 << 63), (1 << 63) - 1


def check_row(row: bytes, config: Config) -> None:
    """Refuses an empty row key, and one that is too long."""
    if not row:
        raise InvalidRequestError("the row is empty; a row key has at least one byte")
    if len(row) > config.row_bytes_max:
        raise _too_long("row", "row_bytes_max", config.row_bytes_max, len(row), row[:64])


def check_in_region(row: bytes, start: bytes, stop: bytes, region_id: int) -> None:
    """Refuses a row outside the region's range [start, stop)."""
    if row < start or (stop and row >= stop):
        raise NotServingRegionError(
            f"row {row_text(row)} is not in region {region_id}, which has [{row_text(start)}, {row_text(stop)}); look "
            "the region up again",
            row=row,
        )


def check_answer(byte_count: int, first_row: bytes, config: Config) -> None:
    """Refuses a get whose answer has at least `byte_count` bytes, if that is too many."""
    if byte_count > config.request_bytes_max:
        raise LimitExceededError(
            f"the answer to the get would have at least {byte_count} bytes, more than request_bytes_max = "
            f"{config.request_bytes_max}; ask for fewer rows or columns, page with CellFilter, or scan",
            limit="request_bytes_max",
            limit_value=config.request_bytes_max,
            found=byte_count,
            row=first_row,
        )


def check_record(byte_count: int, row: bytes, config: Config) -> None:
    """Refuses a change whose log record is too large, which happens if COMPARE read large cells."""
    if byte_count > config.request_bytes_max:
        raise LimitExceededError(
            f"the log record of the mutation of row {row_text(row)} would have {byte_count} bytes, more than "
            f"request_bytes_max = {config.request_bytes_max}: it holds the new cells and the cells of the answer; "
            "change or check fewer large cells at once",
            limit="request_bytes_max",
            limit_value=config.request_bytes_max,
            found=byte_count,
            row=row,
        )


def check_mutation(mutation: RowMutation, table: Table, config: Config, timestamp_max: int) -> int:
    """Returns the bytes of the mutation's cells. Raises an error for limits, families, timestamps, or emptiness.

    `timestamp_max`: the latest timestamp that a client may set.
    """
    row = mutation.row
    check_row(row, config)
    condition = mutation.condition
    if not mutation.changes and not mutation.otherwise:
        raise InvalidRequestError(f"the mutation of row {row_text(row)} has no change; name at least one", row=row)
    families = table.by_name
    byte_count = 0
    qualifier_bytes_max, cell_bytes_max = config.qualifier_bytes_max, config.cell_bytes_max
    changes = mutation.changes
    if (
        type(changes) is RowPuts
        and changes.columns.family in families
        and changes.columns.qualifier_bytes_max <= qualifier_bytes_max
        and changes.value_bytes_max <= cell_bytes_max
    ):
        byte_count = len(row) * len(changes) + changes.columns.qualifier_bytes + changes.value_bytes
        changes = ()
    for change in changes:
        if type(change) is Put:  # The hot path of rows of many columns; `_check_change` finds the error of any other.
            family, qualifier, value, timestamp = change
            if (
                timestamp is None
                and family in families
                and len(qualifier) <= qualifier_bytes_max
                and len(value) <= cell_bytes_max
            ):
                byte_count += len(row) + len(qualifier) + len(value)
                continue
        byte_count += _check_change(change, row, families, table.name, config, timestamp_max)
    for change in mutation.otherwise:
        byte_count += _check_change(change, row, families, table.name, config, timestamp_max)
    if condition is not None:
        for check in condition.checks:
            check_family(check.family, families, table.name, row)
            if check.operand is None and check.op not in (CompareOp.EQUAL, CompareOp.NOT_EQUAL):
                raise InvalidRequestError(
                    f"the check of {column_text(check.family, check.qualifier)} in row {row_text(row)} compares with "
                    "nothing; without an operand only EQUAL (absent) and NOT_EQUAL (present) have a meaning",
                    row=row,
                    family=check.family,
                    qualifier=check.qualifier,
                )
        if condition.filter is not None:
            try:
                check_filter(condition.filter, families, config)
            except FamilyNotFoundError as error:
                raise unknown_family(error.family, families, table.name, row) from None
        if not condition.checks and condition.filter is None and condition.existence is Existence.ANY:
            raise InvalidRequestError(
                f"the condition on row {row_text(row)} is empty; leave it out, or give it a check, an existence or a "
                "filter",
                row=row,
            )
    elif mutation.otherwise:
        raise InvalidRequestError(
            f"the mutation of row {row_text(row)} has an 'otherwise' and no condition; add one or leave the other out",
            row=row,
        )
    return byte_count


def _check_change(
    change: Change, row: bytes, families: Mapping[bytes, Family], table: str, config: Config, timestamp_max: int
) -> int:
    value, timestamp = b"", None
    if isinstance(change, Put):  # The hot path: a `match` on the class of a tuple takes as long as the whole check.
        family, qualifier, value, timestamp = change
    elif isinstance(change, Delete):
        family, qualifier, timestamp = change.family, change.qualifier, change.timestamp
    elif isinstance(change, Increment):
        family, qualifier = change.family, change.qualifier
        if not INT64_MIN <= change.amount <= INT64_MAX:
            raise InvalidRequestError(
                f"increment of row {row_text(row)} by {change.amount}: the amount must fit 64 signed bits", row=row
            )
    else:
        family, qualifier, value = change.family, change.qualifier, change.suffix
    if timestamp is not None:
        _check_timestamp(timestamp, row, timestamp_max, config)
    if isinstance(change, Delete) and change.kind is DeleteKind.ROW:
        return len(row)
    check_family(family, families, table, row)
    if len(qualifier) > config.qualifier_bytes_max:
        raise _too_long("qualifier", "qualifier_bytes_max", config.qualifier_bytes_max, len(qualifier), row, family)
    if len(value) > config.cell_bytes_max:
        raise _too_long("value", "cell_bytes_max", config.cell_bytes_max, len(value), row, family, qualifier)
    return len(row) + len(qualifier) + len(value)


def check_family(family: bytes, families: Mapping[bytes, Family], table: str, row: bytes = b"") -> None:
    """Refuses a family that the table does not have."""
    if family not in families:
        raise unknown_family(family, families, table, row)


def unknown_family(
    family: bytes, families: Mapping[bytes, Family], table: str, row: bytes = b""
) -> FamilyNotFoundError:
    """Returns the error with the table's name, which the checks of reads and filters don't know."""
    shown = family[:FAMILY_BYTES_SHOWN]
    return FamilyNotFoundError(
        f"table {table!r} has no column family {name_text(family)}; it has: {listed(families)}",
        row=row,
        table=table,
        family=shown,
    )


def _check_timestamp(timestamp: int, row: bytes, timestamp_max: int, config: Config) -> None:
    if timestamp < 0 or timestamp > TIMESTAMP_MAX:
        raise InvalidRequestError(
            f"timestamp {timestamp} of row {row_text(row)} is out of range; it is milliseconds since the epoch, 0 or "
            "more",
            row=row,
        )
    if timestamp > timestamp_max:
        raise LimitExceededError(
            f"timestamp {timestamp} of row {row_text(row)} is more than timestamp_ahead_ms_max = "
            f"{config.timestamp_ahead_ms_max} ms ahead of the server's clock; such a cell would hide every put "
            "until then",
            limit="timestamp_ahead_ms_max",
            limit_value=config.timestamp_ahead_ms_max,
            found=timestamp,
            row=row,
        )


def _too_long(
    what: str, limit: str, limit_value: int, found: int, row: bytes, family: bytes = b"", qualifier: bytes = b""
) -> LimitExceededError:
    shown = qualifier[:64]
    where = f" in column {column_text(family, qualifier)}" if qualifier and what == "value" else ""
    return LimitExceededError(
        f"the {what} of row {row_text(row)}{where} has {found} bytes, more than {limit} = {limit_value}",
        limit=limit,
        limit_value=limit_value,
        found=found,
        row=row,
        family=family,
        qualifier=shown,
    )
