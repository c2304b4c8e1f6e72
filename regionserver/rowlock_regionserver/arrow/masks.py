"""Predicates over a whole column of bytes, as numpy masks: one bool an element.

The operands become Arrow scalars through buffers, because `pa.scalar(bytes)` imports pandas when it is installed.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from rowlock_regionserver.arrow.columns import Column, Mask, binary_array, unpacked_bits
from rowlock_regionserver.operations import CompareOp, PatternKind

_COMPARE = {
    CompareOp.EQUAL: "equal",
    CompareOp.NOT_EQUAL: "not_equal",
    CompareOp.LESS: "less",
    CompareOp.LESS_OR_EQUAL: "less_equal",
    CompareOp.GREATER: "greater",
    CompareOp.GREATER_OR_EQUAL: "greater_equal",
}


# Sorted by radix, 20 times as fast as larger ones.
SmallPlaces = npt.NDArray[np.int16]
SMALL_PLACES_MAX = (1 << 15) - 1


def buffer_of(array: Column, index: int) -> memoryview:
    """Returns a buffer of a column; empty when there is none.

    Buffer 1 holds numbers, bits or offsets, buffer 2 the bytes of a binary column.
    """
    buffer = array.buffers()[index]
    return memoryview(b"") if buffer is None else memoryview(buffer)


def numpy_mask(array: Column) -> Mask:
    """Returns a boolean column without nulls as a numpy mask, without `to_numpy`, which imports pandas."""
    assert array.type == pa.bool_(), f"a column of {array.type}"
    assert array.null_count == 0, f"{array.null_count} nulls"
    bits = array.buffers()[1] if len(array) else None
    return np.zeros(0, np.bool_) if bits is None else unpacked_bits(bits, len(array), array.offset)


def are_utf8(column: Column) -> Mask:
    """Returns which elements are UTF-8. Decodes them one by one if some are not."""
    try:
        column.cast(pa.string())
    except pa.ArrowInvalid:
        return np.fromiter((_is_utf8(value.as_py()) for value in column), np.bool_, len(column))
    return np.ones(len(column), np.bool_)


def _is_utf8(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True


def compares(column: Column, op: CompareOp, operand: bytes) -> Mask:
    """Returns where "element op operand" holds, by unsigned bytes."""
    return numpy_mask(pc.call_function(_COMPARE[op], [column, binary_array([operand])[0]]))


def is_one_of(column: Column, operands: Collection[bytes]) -> Mask:
    """Returns where the element is one of the operands."""
    if len(operands) == 1:
        return compares(column, CompareOp.EQUAL, next(iter(operands)))
    options = pc.SetLookupOptions(value_set=binary_array(sorted(operands)))
    return numpy_mask(pc.call_function("is_in", [column], options))


def places_among(column: Column, operands: Column) -> SmallPlaces:
    """Returns each element's place among the operands, which are distinct; -1 if it is not there. 60 M elements/s."""
    assert len(operands) <= SMALL_PLACES_MAX, f"{len(operands)} operands"
    found = pc.call_function("index_in", [column], pc.SetLookupOptions(value_set=operands))
    places = np.frombuffer(buffer_of(found, 1), np.int32, len(found)).astype(np.int16)
    if found.null_count:
        places[~numpy_mask(pc.call_function("is_valid", [found]))] = -1
    return places


def matches_pattern(column: Column, kind: PatternKind, operand: bytes) -> Mask:
    """Returns where the element starts with, ends with or contains the operand."""
    name = {
        PatternKind.STARTS_WITH: "starts_with",
        PatternKind.ENDS_WITH: "ends_with",
        PatternKind.CONTAINS: "match_substring",
    }[kind]
    # The stubs say str, but bytes are accepted as they are, even if they are not UTF-8.
    options = pc.MatchSubstringOptions(operand)  # type: ignore[arg-type]
    return numpy_mask(pc.call_function(name, [column], options))
