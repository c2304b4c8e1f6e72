"""The value of a counter: 8 bytes, big-endian, signed."""

from __future__ import annotations

from rowlock._codec.columns import Value, encoded_value
from rowlock.errors import NotACounterError

_BYTES = 8


def counter_value(value: Value) -> int:
    """Decodes the value of a counter, as `row` or `scan` returned it: bytes, or str in a table with an encoding.

    `Table.counter` reads a single counter. Raises NotACounterError if the value is not 8 bytes.
    """
    stored = encoded_value(value)
    if len(stored) != _BYTES:
        raise NotACounterError(f"a counter has {_BYTES} bytes, and the value has {len(stored)}")
    return int.from_bytes(stored, "big", signed=True)
