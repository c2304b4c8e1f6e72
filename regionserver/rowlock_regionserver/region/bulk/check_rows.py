"""Checks a bulk batch of rows against the table and the limits, by vector operations."""

from __future__ import annotations

import numpy as np
from rowlock_proto.shown_names import column_text, row_text

from rowlock_regionserver.arrow.columns import bytes_at, offsets
from rowlock_regionserver.arrow.line_values import value_lengths
from rowlock_regionserver.config import Config
from rowlock_regionserver.errors import InvalidRequestError, LimitExceededError
from rowlock_regionserver.region.bulk.row_batch import RowBatch
from rowlock_regionserver.region.check import check_family
from rowlock_regionserver.table import Table


def check_rows(batch: RowBatch, table: Table, config: Config) -> None:
    """Raises an error for a family that the table does not have, and for keys and values beyond the limits.

    Timestamps are not checked here. Raises InvalidRequestError, LimitExceededError and FamilyNotFoundError.
    """
    if not len(batch):
        raise InvalidRequestError("the bulk batch has no rows; send at least one")
    for family in dict.fromkeys([family for family, _ in batch.names]):
        check_family(family, table.by_name, table.name)
    _check_row_keys(batch, config)
    for place in range(len(batch.columns)):
        _check_column(batch, place, config)


def _check_row_keys(batch: RowBatch, config: Config) -> None:
    lengths = np.diff(offsets(batch.rows))
    if not lengths.all():
        at = int(np.argmin(lengths))
        raise InvalidRequestError(f"row {at} of the bulk batch has an empty key; a row key has at least one byte")
    at = int(np.argmax(lengths))
    if lengths[at] > config.row_bytes_max:
        row = _shown_row(batch, at)
        raise _too_long(f"key of row {row_text(row)}", "row_bytes_max", config.row_bytes_max, int(lengths[at]), row)


def _check_column(batch: RowBatch, place: int, config: Config) -> None:
    family, qualifier = batch.names[place]
    name = column_text(family, qualifier)
    if len(qualifier) > config.qualifier_bytes_max:
        limit = config.qualifier_bytes_max
        raise _too_long(f"qualifier of column {name}", "qualifier_bytes_max", limit, len(qualifier), b"", family)
    lengths = value_lengths(batch.columns[place])
    at = int(np.argmax(lengths))
    if lengths[at] > config.cell_bytes_max:
        row = _shown_row(batch, at)
        what = f"value of row {row_text(row)} in column {name}"
        limit = config.cell_bytes_max
        raise _too_long(what, "cell_bytes_max", limit, int(lengths[at]), row, family, qualifier[:64])


def _shown_row(batch: RowBatch, at: int) -> bytes:
    return bytes_at(batch.rows, at)[:64]


def _too_long(
    what: str, limit: str, limit_value: int, found: int, row: bytes, family: bytes = b"", qualifier: bytes = b""
) -> LimitExceededError:
    return LimitExceededError(
        f"the {what} of the bulk batch has {found} bytes, more than {limit} = {limit_value}",
        limit=limit,
        limit_value=limit_value,
        found=found,
        row=row,
        family=family,
        qualifier=qualifier,
    )
