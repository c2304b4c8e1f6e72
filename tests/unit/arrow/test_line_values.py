"""Columns of lines in their variable form."""

from __future__ import annotations

import pyarrow as pa
import pytest
from rowlock_regionserver.arrow.columns import Column
from rowlock_regionserver.arrow.line_values import as_binary, fixed_size

_VALUES = [b"abc", b"def", b"ghi", b"jkl"]
_WHOLE = fixed_size(3, 4, None, pa.py_buffer(b"".join(_VALUES)))


@pytest.mark.parametrize(
    "column",
    [
        _WHOLE,
        _WHOLE.slice(1, 2),
        _WHOLE.slice(0, 3),
        _WHOLE.slice(2, 0),
        pa.array([b"abc", None, b"ghi"], pa.binary(3)),
        pa.array([b"", b""], pa.binary(0)),
        pa.array([b"abc", b"d", None], pa.binary()),
    ],
    ids=["whole", "middle", "start", "none", "null", "empty", "variable"],
)
def test_a_column_in_its_variable_form_has_the_same_values(column: Column) -> None:
    found = as_binary(column)
    assert found.type == pa.binary()
    assert found.to_pylist() == column.to_pylist()
    found.validate(full=True)


def test_values_are_not_copied_unless_others_would_stay_in_memory() -> None:
    data = _WHOLE.buffers()[1]
    assert data is not None
    of_whole = as_binary(_WHOLE).buffers()[2]
    assert of_whole is not None
    assert of_whole.address == data.address
    for part in (_WHOLE.slice(1, 2), _WHOLE.slice(0, 2)):
        of_part = as_binary(part).buffers()[2]
        assert of_part is not None
        assert not data.address <= of_part.address < data.address + data.size
