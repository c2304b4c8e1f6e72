"""Arrays of Python objects and numpy buffers, made without a copy or pandas."""

from __future__ import annotations

import subprocess
import sys

import pyarrow as pa
import pytest
from rowlock._codec.arrow_buffers import Array, as_binary, integers_array, names_array, side_by_side

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


def test_arrays_at_equal_distances_are_read_side_by_side_in_their_place() -> None:
    whole = fixed([*VALUES[:12]], 5)
    columns = [whole.slice(start, 3) for start in (1, 5, 9)]
    rows = side_by_side(columns, 5)
    assert rows is not None
    assert rows.ctypes.data == data_address(whole, 1) + 5
    del whole, columns
    assert rows.tolist() == [values_at(1, 5, 9), values_at(2, 6, 10), values_at(3, 7, 11)]
    one = side_by_side([fixed([b"a", b"b"], 1)], 1)
    assert one is not None
    assert one.tolist() == [[b"a"], [b"b"]]


def values_at(*numbers: int) -> list[bytes]:
    return [VALUES[number] for number in numbers]


@pytest.mark.parametrize("starts", [(0, 4, 9), (0, 4, 4), (8, 4, 0), (3, 3)])
def test_arrays_at_other_distances_are_not_read_side_by_side(starts: tuple[int, ...]) -> None:
    whole = fixed([*VALUES[:12]], 5)
    assert side_by_side([whole.slice(start, 3) for start in starts], 5) is None


def test_arrays_without_bytes_are_not_read_side_by_side() -> None:
    assert side_by_side([fixed([], 5)], 5) is None
    assert side_by_side([fixed([b""], 0), fixed([b""], 0)], 0) is None


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


@pytest.mark.parametrize("values", [[], [b"a"], [b"", None, b"bcd"], [None]])
def test_names_become_an_array(values: list[bytes | None]) -> None:
    array = names_array(values)
    array.validate(full=True)
    assert (array.type, array.to_pylist()) == (pa.binary(), values)


@pytest.mark.parametrize("numbers", [[], [5, -(1 << 63)], [1, None, (1 << 63) - 1], [None, None]])
def test_integers_become_an_array(numbers: list[int | None]) -> None:
    array = integers_array(numbers)
    array.validate(full=True)
    assert (array.type, array.to_pylist()) == (pa.int64(), numbers)


def test_batches_and_casts_do_not_import_pandas() -> None:
    """Which would cost the first batch of a process half a second and 60 MB."""
    pytest.importorskip("pandas")
    program = """
import sys
import numpy as np
import pyarrow as pa
from rowlock._codec.arrow_buffers import primitive_array
from rowlock._codec.casts import as_type
from rowlock._core.bulk_write_requests import GatheredRows
from tests.unit.client.test_put_rows import WHOLE, key, lines_of, send_of
lines = lines_of(*[(key(number), {"f:a": b"1", "f:%d" % (number % 2): b"2"}, number or None) for number in range(99)])
assert send_of(lines).request_for(WHOLE, takes_columns=True).point.put_rows.rows.columns
rows = GatheredRows()
rows.put("a", {"f:a": b"1"}, None)
rows.delete("a", ["f:b"], 5)
assert rows.table().num_rows == 2
floats = primitive_array(pa.float64(), np.array([1.25, 2.5]), np.array([True, False]))
assert len(as_type(floats, pa.decimal128(10, 2))) == 2
assert "pandas" not in sys.modules, "pandas was imported"
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
