"""Casts input columns to the types of a mapping; raises MappingError where a value would change. Vectorised.

Arrow refuses most such casts itself. This module catches those that it makes: a number too large for a float becomes
infinite, a timestamp loses its time of day, a float is rounded to a decimal's scale, every number but 0 becomes true,
and a time becomes a number that depends on its unit. Rounding to the nearest float is allowed, and so is rounding a
float to the decimal that it approximates.
"""

from __future__ import annotations

from typing import Any, TypeAlias, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rowlock._codec.arrow_buffers import Array, Bools, bools_of, valid_of, values_of
from rowlock._codec.encodings import timestamps_of_text
from rowlock.errors import MappingError

Floats: TypeAlias = npt.NDArray[np.floating[Any]]  # Any: of 32 or 64 bits

# How many units in the last place a float may differ from the decimal that it approximates, after some arithmetic.
_LAST_BITS = 4
# The precision of Arrow's widest decimal.
_DIGITS_MAX = 76


def as_type(array: Array, wanted: pa.DataType) -> Array:
    """Returns the array cast to `wanted`.

    Raises MappingError for a value that would change, ArrowInvalid or ArrowNotImplementedError if Arrow can't cast it.
    """
    if array.type == wanted:
        return array
    if isinstance(array.type, pa.DictionaryType):
        return as_type(array.cast(array.type.value_type), wanted)
    if pa.types.is_timestamp(wanted) and pa.types.is_timestamp(array.type) and array.type.tz is None:
        # A time without a zone is taken as UTC.
        return array.cast(pa.timestamp("us")).cast(pa.int64()).cast(wanted)
    if pa.types.is_timestamp(wanted) and (pa.types.is_string(array.type) or pa.types.is_large_string(array.type)):
        return timestamps_of_text(array)
    if pa.types.is_integer(wanted) or (pa.types.is_string(wanted) and pa.types.is_duration(array.type)):
        _check_no_unit(array.type)
    if pa.types.is_decimal(wanted) and pa.types.is_integer(array.type):
        # Arrow casts integers only to a decimal that fits every number of their type. The widest one does; Arrow then
        # checks each value when it casts between decimals.
        array = array.cast(pa.decimal256(_DIGITS_MAX, wanted.scale))
    result = array.cast(wanted)
    changed = _first_changed(array, result)
    if changed is not None:
        raise MappingError(f"{_text(array, changed)} would become {_text(result, changed)}")
    return result


def _check_no_unit(kind: pa.DataType) -> None:
    """Raises MappingError for times and durations: as numbers they depend on a unit that the caller may not know."""
    if pa.types.is_timestamp(kind):
        advice = "use TIMESTAMP in the mapping, or make the column"
    elif pa.types.is_date64(kind):
        advice = "use DATE in the mapping, or make the column"
    elif pa.types.is_duration(kind) or pa.types.is_time(kind):
        advice = "make the column"
    else:
        return
    raise MappingError(f"its number depends on the unit of the column; {advice} a number of the unit that you mean")


def _text(array: Array, place: int) -> str:
    # In Arrow's format: Python's times have no nanoseconds.
    text: str = array.slice(place, 1).cast(pa.string())[0].as_py()
    return text


def _first_changed(array: Array, result: Array) -> int | None:
    from rowlock._codec.late_compute import compute as pc

    is_changed: Array
    if pa.types.is_floating(result.type):
        is_changed = pc.is_inf(result)
        if pc.any(is_changed).as_py():
            is_changed = pc.and_not(is_changed, _is_infinite(array))
    elif pa.types.is_date(result.type) and pa.types.is_timestamp(array.type):
        local: Any = array  # Any: the stubs know fewer timestamps
        if array.type.tz is not None:
            # Arrow takes the date in the column's zone.
            local = pc.local_timestamp(local)
        is_changed = pc.not_equal(result.cast(local.type), local)
    elif pa.types.is_decimal(result.type) and pa.types.is_floating(array.type):
        return _first(_is_rounded(array, result), valid_of(array))
    elif pa.types.is_boolean(result.type) and (pa.types.is_integer(array.type) or pa.types.is_floating(array.type)):
        is_changed = pc.not_equal(result.cast(array.type), array)
    else:
        return None
    return _first(bools_of(is_changed), valid_of(is_changed))


def _first(is_changed: Bools, is_valid: Bools | None) -> int | None:
    # pc.index would import pandas.
    places = np.flatnonzero(is_changed if is_valid is None else is_changed & is_valid)
    return int(places[0]) if len(places) else None


def _is_infinite(array: Array) -> Array:
    from rowlock._codec.late_compute import compute as pc

    if pa.types.is_floating(array.type):
        return pc.is_inf(array)
    # Other numbers are finite; text may say "inf" or "-Infinity".
    return pc.match_substring(array.cast(pa.string()), "inf", ignore_case=True)


def _is_rounded(array: Array, result: Array) -> Bools:
    """Returns which floats differ from their decimals by more than _LAST_BITS, and 1e-9 of the decimal's last place.

    Those of nulls are undefined.
    """
    dtype = np.dtype(f"f{array.type.bit_width // 8}")
    floats = cast(Floats, values_of(array, dtype))
    back = cast(Floats, values_of(result.cast(array.type), dtype))
    scale: int = result.type.scale
    nearly: Floats = np.maximum(_LAST_BITS * np.spacing(np.abs(floats)), 1e-9 * 10.0**-scale)
    return np.abs(back - floats) > nearly
