"""Turns comparisons of key parts into row ranges.

A row key is the concatenation of its parts' bytes, each with its terminator (keys.py). Equality on the leading parts
gives prefixes; a condition on the next part gives ranges within each prefix; a scan reads the intersection of the
ranges of all conditions. Worked example, of the key "carrier STRING :key, day DATE :key ordered":

    carrier IN ('AA', 'UA')      prefixes AA| and UA|            ranges [AA|, AA}) and [UA|, UA})
    day >= DATE '2013-02-01'     its bytes after each prefix     ranges [AA|x, AA}) and [UA|x, UA})

Ranges are exact where bytes order and compare as Spark's values do:

    as written    the last part, STRING or BINARY     every comparison, also "starts with"
    terminated    STRING or BINARY, ordered, not last every comparison
    separated     STRING or BINARY, text, not last    equality and "starts with"; bytes do not order as the values
    ordered       integers, dates, timestamps, decimals as ordered                      every comparison
    big-endian    integers, dates and timestamps as binary: negative ones order last, in a separate range

Ranges are not exact for numbers as text, which have several spellings; for floats, whose zeros and NaN Spark orders
differently; and for booleans, of which every byte but 0 is true.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

import pyarrow as pa
from rowlock_proto.prefixes import prefix_stop

from rowlock._codec.columns import ROW_BYTES_MAX
from rowlock._core.scan_plan import RowRange
from rowlock.errors import RowlockError
from rowlock.mapping import MappedColumn, Mapping

# A range costs a scan about 0.45 ms, as much as reading 1,000 consecutive rows (measured with 300,000 rows of one
# column of 100 bytes, and 100 to 3,000 ranges). Requests and partitions contain the ranges.
RANGES_MAX = 10_000
ALL_ROWS: tuple[RowRange, ...] = ((b"", b""),)
_END = b"\0\0"


class Op(Enum):
    """An operator between a part of the key and a value."""

    EQUAL = "="
    LESS = "<"
    LESS_OR_EQUAL = "<="
    GREATER = ">"
    GREATER_OR_EQUAL = ">="
    STARTS_WITH = "starts with"


@dataclass(frozen=True, slots=True)
class PartCondition:
    """The part compares with one of `values` by the operator; several values only with EQUAL."""

    part: int
    op: Op
    values: tuple[Any, ...]  # Any: the part's type in Spark


class _NotExactError(Exception):
    """Row ranges can't represent the condition exactly."""


def row_ranges(mapping: Mapping, conditions: Sequence[PartCondition]) -> tuple[tuple[RowRange, ...], set[int]]:
    """Returns the ranges of the conditions that ranges represent exactly, and the indexes of these conditions.

    A condition that needs more than RANGES_MAX ranges is not among them.
    """
    ranges, exact = ALL_ROWS, set[int]()
    prefixes: list[bytes] = [b""]
    for number, part in enumerate(mapping.keys):
        fixed: list[bytes] | None = None
        for place, condition in enumerate(conditions):
            if condition.part != number:
                continue
            try:
                relative, encoded = _relative_ranges(mapping, part, condition)
            except _NotExactError:
                continue
            relative = _without_overlaps(relative)
            if len(relative) * len(prefixes) > RANGES_MAX:
                continue
            exact.add(place)
            fixed = encoded or fixed
            ranges = intersected(ranges, _after(prefixes, relative))
        if fixed is None or len(fixed) * len(prefixes) > RANGES_MAX:
            break
        prefixes = [prefix + value for prefix in prefixes for value in fixed]
    return ranges, exact


def intersected(left: Sequence[RowRange], right: Sequence[RowRange]) -> tuple[RowRange, ...]:
    """Returns the intersection of two lists of ranges, each in row order without overlaps. Linear time."""
    found: list[RowRange] = []
    i = j = 0
    while i < len(left) and j < len(right):
        (start, stop), (other_start, other_stop) = left[i], right[j]
        first = max(start, other_start)
        last = min(stop, other_stop) if stop and other_stop else stop or other_stop
        if not last or first < last:
            found.append((first, last))
        if stop and (not other_stop or stop <= other_stop):
            i += 1
        else:
            j += 1
    return tuple(found)


def _after(prefixes: Sequence[bytes], relative: Sequence[RowRange]) -> list[RowRange]:
    """Returns the ranges within each prefix, in row order. An empty stop is the end of the prefix."""
    return _without_overlaps(
        [
            (prefix + start, prefix + stop if stop else prefix_stop(prefix))
            for prefix in prefixes
            for start, stop in relative
        ]
    )


def _without_overlaps(ranges: Sequence[RowRange]) -> list[RowRange]:
    merged: list[RowRange] = []
    for start, stop in sorted(ranges):
        if stop and start >= stop:
            continue
        if merged and (not merged[-1][1] or start <= merged[-1][1]):
            last_start, last_stop = merged[-1]
            merged[-1] = (last_start, max(last_stop, stop) if last_stop and stop else b"")
        else:
            merged.append((start, stop))
    return merged


def _relative_ranges(
    mapping: Mapping, part: MappedColumn, condition: PartCondition
) -> tuple[list[RowRange], list[bytes] | None]:
    """Returns the ranges of the bytes after a prefix; an empty stop is the prefix's end. Raises _NotExactError.

    With EQUAL also returns the encoded values with their terminators.
    """
    is_last = part is mapping.keys[-1]
    is_bytes = part.codec.arrow in (pa.string(), pa.binary())
    # Other leading parts need no separator: they have a fixed width, or their codec adds a terminator.
    separator = mapping.separator if part.encoding == "text" and not is_last else b""
    if condition.op is Op.STARTS_WITH:
        return [_starting_with(part, condition.values[0], is_last, separator)], None
    if not is_bytes and not _is_fixed(part):
        raise _NotExactError
    encoded = [_encoded(part, value, separator) for value in condition.values]
    after: Callable[[bytes], bytes] = (lambda value: value + b"\0") if is_last else prefix_stop
    if condition.op is Op.EQUAL:
        return [(value, after(value)) for value in encoded], encoded
    [value] = encoded
    if separator or not value:
        raise _NotExactError
    if is_bytes or part.encoding == "ordered":
        return _compared(condition.op, value, after), None
    # Bytes order as 0 to the largest, then the smallest to -1.
    negative = b"\x80"
    is_below = condition.op in (Op.LESS, Op.LESS_OR_EQUAL)
    own = (b"", negative) if value < negative else (negative, b"")
    same_sign = list(intersected([own], _compared(condition.op, value, after)))
    if value < negative:
        return ([*same_sign, (negative, b"")] if is_below else same_sign), None
    return (same_sign if is_below else [(b"", negative), *same_sign]), None


def _compared(op: Op, value: bytes, after: Callable[[bytes], bytes]) -> list[RowRange]:
    """Returns the ranges of a comparison whose bytes order as the values do."""
    if op is Op.LESS:
        return [(b"", value)]
    if op is Op.LESS_OR_EQUAL:
        return [(b"", after(value))]
    start = value if op is Op.GREATER_OR_EQUAL else after(value)
    # Nothing sorts after a value that consists of bytes ff.
    return [(start, b"")] if start else []


def _starting_with(part: MappedColumn, text: Any, is_last: bool, separator: bytes) -> RowRange:
    if part.codec.arrow != pa.string() or not isinstance(text, str) or not text:
        raise _NotExactError
    begin = text.encode()
    if separator and separator in begin:
        raise _NotExactError
    if not is_last and not separator:
        begin = begin.replace(b"\0", b"\0\xff")
    return begin, prefix_stop(begin)


def _is_fixed(part: MappedColumn) -> bool:
    """Returns whether equal values have equal bytes, of a fixed length, in a known order."""
    arrow = part.codec.arrow
    is_number = pa.types.is_integer(arrow) or arrow in (pa.date32(), pa.timestamp("us", tz="UTC"))
    if part.encoding == "ordered":
        return is_number or pa.types.is_decimal(arrow)
    return part.encoding == "binary" and is_number


def _encoded(part: MappedColumn, value: Any, separator: bytes) -> bytes:
    """Encodes the value with its terminator. Raises _NotExactError for a value that no key can contain."""
    try:
        array = pa.array([value], part.codec.arrow)
        encoded: bytes = part.codec.encode(array)[0].as_py() + separator
    except (pa.ArrowException, RowlockError, TypeError, ValueError, OverflowError):
        raise _NotExactError from None
    if len(encoded) > ROW_BYTES_MAX or (separator and encoded.index(separator) + len(separator) != len(encoded)):
        raise _NotExactError
    return encoded
