"""Values of one length become binary without being copied."""

from __future__ import annotations

import pyarrow as pa
import pytest
from rowlock._codec.arrow_buffers import Array, as_binary

VALUES = [b"%05d" % number for number in range(70_000)]


def fixed(values: list[bytes | None], width: int) -> Array:
    return pa.array(values, pa.binary(width))


def data_address(array: Array, place: int) -> int:
    data = array.buffers()[place]
    assert data is not None
    return data.address


@pytest.mark.parametrize(("start", "stop"), [(0, 1000), (0, 1), (3, 800), (999, 1000), (0, 70_000), (5, 69_000)])
def test_values_of_one_length_become_binary_in_their_place(start: int, stop: int) -> None:
    array = fixed([*VALUES], 5)
    binary = as_binary(array.slice(start, stop - start))
    binary.validate(full=True)
    assert binary.type == pa.binary()
    assert binary.to_pylist() == VALUES[start:stop]
    assert data_address(binary, 2) == data_address(array, 1) + 5 * start


def test_columns_of_several_lengths_and_counts_take_turns() -> None:
    for width in range(1, 12):
        for count in (1, 2, 50):
            values = [bytes([number]) * width for number in range(count)]
            assert as_binary(fixed([*values], width)).to_pylist() == values


@pytest.mark.parametrize("values", [[], [None], [b"ab", None, b"cd"], [None, None]])
def test_without_values_or_with_nulls_they_become_binary_too(values: list[bytes | None]) -> None:
    for array in (fixed(values, 2), fixed([b"xx", *values], 2).slice(1)):
        binary = as_binary(array)
        binary.validate(full=True)
        assert (binary.type, binary.to_pylist()) == (pa.binary(), values)


def test_values_of_no_length_become_binary_too() -> None:
    assert as_binary(fixed([b"", b""], 0)).to_pylist() == [b"", b""]


def test_binary_stays_as_it_is() -> None:
    array = pa.array([b"a", None, b"bcd"], pa.binary())
    assert as_binary(array) is array
