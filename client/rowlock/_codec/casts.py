"""Columns of an input as the types of a mapping, refused where a value would become another one. Vectorised.

Arrow refuses most such casts itself. It makes those that are caught here: what is too large for a float becomes
infinite, a time loses its time of day, a float is rounded to a decimal's places, every number but 0 becomes true, and
one time becomes as many numbers as there are units that it may be kept in.
Rounding to the nearest float, and to the decimal that a float was meant for, is no change.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rowlock._codec.arrow_buffers import Array
from rowlock._codec.encodings import timestamps_of_text
from rowlock.errors import MappingError

Floats: TypeAlias = npt.NDArray[np.floating[Any]]  # Any: of 32 or 64 bits

# A float is only near the decimal that it stands for; after some arithmetic it may be off by so many of its last bits.
_LAST_BITS = 4
# Of Arrow's widest decimal.
_DIGITS_MAX = 76


def as_type(array: Array, wanted: pa.DataType) -> Array:
    """The values as `wanted`.

    Raises MappingError for a value that would become another one, ArrowInvalid or ArrowNotImplementedError where Arrow
    makes no such cast.
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
        # Arrow asks a decimal for room for every number of the integer's type. The widest one has it, and is cast by
        # its values.
        array = array.cast(pa.decimal256(_DIGITS_MAX, wanted.scale))
    made = array.cast(wanted)
    changed = _first_changed(array, made)
    if changed is not None:
        raise MappingError(f"{_text(array, changed)} would become {_text(made, changed)}")
    return made


def _check_no_unit(given: pa.DataType) -> None:
    """Raises MappingError if the numbers of such an array are of a unit, which the caller of a mapping may not know."""
    if pa.types.is_timestamp(given):
        advice = "say TIMESTAMP in the mapping, or make the column"
    elif pa.types.is_date64(given):
        advice = "say DATE in the mapping, or make the column"
    elif pa.types.is_duration(given) or pa.types.is_time(given):
        advice = "make the column"
    else:
        return
    raise MappingError(
        f"its number depends on the unit in which the column is kept; {advice} a number of the unit that you mean"
    )


def _text(array: Array, place: int) -> str:
    # As Arrow writes it: Python has no nanoseconds.
    text: str = array.slice(place, 1).cast(pa.string())[0].as_py()
    return text


def _first_changed(array: Array, made: Array) -> int | None:
    import pyarrow.compute as pc

    is_changed: Array
    if pa.types.is_floating(made.type):
        is_changed = pc.is_inf(made)
        if pc.any(is_changed).as_py():
            is_changed = pc.and_not(is_changed, _is_infinite(array))
    elif pa.types.is_date(made.type) and pa.types.is_timestamp(array.type):
        local: Any = array  # Any: the stubs know fewer timestamps
        if array.type.tz is not None:
            # Arrow takes the date there.
            local = pc.local_timestamp(local)
        is_changed = pc.not_equal(made.cast(local.type), local)
    elif pa.types.is_decimal(made.type) and pa.types.is_floating(array.type):
        is_changed = _is_rounded(array, made)
    elif pa.types.is_boolean(made.type) and (pa.types.is_integer(array.type) or pa.types.is_floating(array.type)):
        is_changed = pc.not_equal(made.cast(array.type), array)
    else:
        return None
    place: int = pc.index(is_changed, True).as_py()
    return None if place < 0 else place


def _is_infinite(array: Array) -> Array:
    import pyarrow.compute as pc

    if pa.types.is_floating(array.type):
        return pc.is_inf(array)
    # Of numbers only floats are; of text what says so, "inf" or "-Infinity".
    return pc.match_substring(array.cast(pa.string()), "inf", ignore_case=True)


def _is_rounded(array: Array, made: Array) -> Array:
    """Whether a float is farther from its decimal than by its last bits, or a billionth of the decimal's last place."""
    floats: Floats = array.to_numpy(zero_copy_only=False)
    back: Floats = made.cast(array.type).to_numpy(zero_copy_only=False)
    scale: int = made.type.scale
    nearly: Floats = np.maximum(_LAST_BITS * np.spacing(np.abs(floats)), 1e-9 * 10.0**-scale)
    is_far: npt.NDArray[np.bool_] = np.abs(back - floats) > nearly
    return pa.array(is_far)
