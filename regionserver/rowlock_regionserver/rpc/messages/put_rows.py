"""Puts in columns: validates PutRows, and returns a PutBatch that is safe to read.

Beside what bulk_rows.py verifies:

1. Null values are absent cells, not deletes.
2. There are sequences for all rows or for none, and only with a client id.
3. Rows, columns and values are bounded: if a row is refused, all of them become row mutations.

Empty and repeated rows, and rows without a value, are not errors here: each row is refused, or not, on its own.
"""

from __future__ import annotations

from rowlock_proto.v1.region_pb2 import PutRows

from rowlock_regionserver.config import Config
from rowlock_regionserver.errors import InvalidRequestError, LimitExceededError
from rowlock_regionserver.region.bulk.put_batch import PutBatch
from rowlock_regionserver.rpc.messages.bulk_rows import row_batch

COLUMNS_MAX = 1_000
VALUES_MAX = 1_000_000
# A row takes an offset, a byte of its key, and a timestamp.
_ROW_BYTES_MIN = 13


def rows_at_most(message: PutRows, config: Config) -> int:
    """Returns a bound of the number of rows, without reading them."""
    if message.sequences:
        return len(message.sequences)
    return min(config.rows_per_request_max, len(message.rows.arrow) // _ROW_BYTES_MIN)


def put_batch(message: PutRows, client_id: bytes, sequence_floor: int, config: Config) -> PutBatch:
    """Returns the puts, without copying their values. `client_id` was checked.

    Raises LimitExceededError and InvalidRequestError.
    """
    if message.rows.nulls_delete:
        raise InvalidRequestError("puts in columns can't delete: do not set nulls_delete, or send a mutate")
    columns = len(message.rows.columns)
    if columns > COLUMNS_MAX:
        raise _too_many("columns", COLUMNS_MAX, columns)
    rows = row_batch(message.rows, message.rows.arrow, config.request_bytes_max)
    count = len(rows)
    if count == 0:
        raise InvalidRequestError("the puts in columns have no row; send at least one")
    if count > config.rows_per_request_max:
        raise _too_many("rows", config.rows_per_request_max, count)
    if count * columns > VALUES_MAX:
        raise _too_many("values", VALUES_MAX, count * columns)
    sequences = tuple(message.sequences)
    if sequences and len(sequences) != count:
        raise InvalidRequestError(f"the puts in columns have {count} rows and {len(sequences)} sequences")
    if any(sequences) and not client_id:
        raise InvalidRequestError(
            "sequences were sent without a client_id; send the client's 16 bytes, or no sequences"
        )
    return PutBatch(rows, client_id, sequences, sequence_floor)


def _too_many(what: str, limit_value: int, found: int) -> LimitExceededError:
    return LimitExceededError(
        f"the puts in columns have {found} {what}, more than {limit_value}; send several requests, or a mutate",
        limit="rows_per_request_max" if what == "rows" else "",
        limit_value=limit_value,
        found=found,
    )
