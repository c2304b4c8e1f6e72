"""A counter's cell: what `increment` stores."""

from __future__ import annotations

from rowlock._codec.columns import Value, encoded_value
from rowlock.errors import NotACounterError

_BYTES = 8


def counter_value(value: Value) -> int:
    """The number in a counter's cell, as a read gives its value, also as the str of a table with an encoding.

    `Table.counter` reads one; this is for those that came with others, by `row` or `scan`. Raises NotACounterError if
    it is not 8 bytes.
    """
    stored = encoded_value(value)
    if len(stored) != _BYTES:
        raise NotACounterError(f"the value has {len(stored)} bytes, and a counter has {_BYTES}")
    return int.from_bytes(stored, "big", signed=True)
