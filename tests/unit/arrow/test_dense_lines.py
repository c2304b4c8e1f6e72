"""The cells of dense lines are those that any other lines would give."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from rowlock_regionserver.arrow import lines as lines_module
from rowlock_regionserver.arrow.columns import binary_array
from rowlock_regionserver.arrow.line_merging import cells_of_parts, concatenated_lines
from rowlock_regionserver.arrow.line_values import fixed_size
from rowlock_regionserver.arrow.lines import Lines, cells_of

COUNT = 7


def numbers(*shape: int) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    return 1 + np.arange(shape[0] * shape[1], dtype=np.int64).reshape(shape)


def dense(widths: list[int], timestamps: tuple[int, int] = (1, 1)) -> Lines:
    rows = binary_array([b"before", *[b"row" * (1 + place % 2) + b"%d" % place for place in range(COUNT)]])
    columns = []
    for place, width in enumerate(widths):
        data = pa.py_buffer(np.random.default_rng(place).bytes(width * (COUNT + 2)))
        columns.append(fixed_size(width, COUNT + 2, None, data).slice(1, COUNT))
    qualifiers = tuple(b"q" * place for place in range(len(widths)))
    return Lines(
        rows.slice(1).take(pa.array([0, 2, 4, 6, 1, 3, 5])),
        numbers(*timestamps),
        numbers(1, COUNT),
        qualifiers,
        tuple(columns),
    )


@pytest.mark.parametrize("widths", [[4], [1, 2, 3, 100], [0], [8, 0, 8]])
@pytest.mark.parametrize("shape", ["block", "line", "cell"])
def test_cells_of_dense_lines_are_those_of_other_lines(
    widths: list[int], shape: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    timestamps = {"block": (1, 1), "line": (1, COUNT), "cell": (len(widths), COUNT)}[shape]
    lines = dense(widths, timestamps)
    found = cells_of(lines)
    found.validate(full=True)
    parts = [lines.slice(0, 3), lines.slice(3, 4), lines.slice(4, COUNT)]
    of_parts = cells_of_parts(parts)
    of_parts.validate(full=True)
    monkeypatch.setattr(lines_module, "are_dense", lambda *_: False)
    assert found.equals(cells_of(lines))
    assert found.equals(of_parts)


def test_parts_that_differ_or_have_versions_are_concatenated() -> None:
    lines = dense([4, 4])
    narrow, twice = lines.slice(3, COUNT).select([b"q"]), replace(lines, rows=binary_array([b"a"] * COUNT))
    first = lines.slice(0, 3)
    for parts in ([first, narrow], [first.select([]), narrow], [dense([8, 4]).slice(0, 3), lines.slice(3, COUNT)]):
        assert cells_of_parts(parts).equals(cells_of(concatenated_lines(parts)))
    versions = [twice.slice(0, 2), twice.slice(2, COUNT)]
    assert cells_of_parts(versions).equals(cells_of(concatenated_lines(versions)))


def test_lines_of_several_parts_become_cells_in_their_order() -> None:
    for timestamps in ((1, 1), (1, COUNT), (3, COUNT)):
        lines = dense([8, 0, 3], timestamps)
        parts = [lines.slice(0, 3), lines.slice(3, 4), lines.slice(4, COUNT)]
        order = np.array([3, 0, 6, 5, 1, 4, 2])
        expected = cells_of(lines.take(order))
        assert cells_of_parts(parts, order).equals(expected)
        # Of different columns, or with nulls, too.
        narrow = [parts[0].select([b"", b"q"]), *parts[1:]]
        assert cells_of_parts(narrow, order).equals(cells_of(concatenated_lines(narrow).take(order)))
