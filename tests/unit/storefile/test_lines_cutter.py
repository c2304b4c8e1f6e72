"""Lines are cut into blocks of whole rows, of about a number of bytes, and only those of two pieces are copied."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from rowlock_regionserver.arrow.columns import binary_array
from rowlock_regionserver.arrow.line_slices import fitting_lines
from rowlock_regionserver.arrow.lines import Lines
from rowlock_regionserver.storefile.lines_cutter import LinesCutter, uncompressed_bytes

from tests.seeds import drawn_seed

BLOCK_BYTES = 1000  # of a family; a block of lines has twice as many
NAMES = [b"%d" % number for number in range(6)]
ONE = np.ones((1, 1), np.int64)


def lines_of(rows: list[bytes], values: list[bytes], qualifiers: tuple[bytes, ...] = (b"q",)) -> Lines:
    """Returns lines, of which those of one row are versions, the newest first."""
    versions = np.arange(len(rows), 0, -1, dtype=np.int64)[np.newaxis]
    return Lines(binary_array(rows), versions, ONE, qualifiers, (binary_array(values),) * len(qualifiers))


def afresh(lines: Lines) -> Lines:
    """Returns the rows of the lines without what is known of them."""
    return lines_of([row.as_py() or b"" for row in lines.rows], [b""] * len(lines))


def cells_of(pieces: list[Lines]) -> list[tuple[object, object]]:
    return [
        (row.as_py(), value.as_py())
        for piece in pieces
        for row, value in zip(piece.rows, piece.columns[0], strict=True)
    ]


def blocks_of(pieces: list[Lines]) -> list[Lines]:
    cutter = LinesCutter(BLOCK_BYTES)
    blocks = [block for piece in pieces for block in cutter.add(piece)]
    return [*blocks, *cutter.finish()]


def test_blocks_have_all_lines_in_order_and_whole_rows() -> None:
    chance = random.Random(drawn_seed())
    for _ in range(200):
        pieces, number = [], 0
        for _ in range(chance.randint(1, 6)):
            rows: list[bytes] = []
            for _ in range(chance.choice([1, 3, 40])):
                number += 1
                rows += [b"%06d" % number] * chance.choice([1, 1, 1, 4])
            pieces.append(lines_of(rows, [bytes(chance.choice([0, 20, 20, 3000])) for _ in rows]))
        blocks = blocks_of(pieces)
        assert cells_of(blocks) == cells_of(pieces)
        for before, after in pairwise(blocks):
            assert before.row(-1) < after.row(0)
        for block in blocks:
            is_one_row = block.row(0) == block.row(-1)
            assert is_one_row or int(uncompressed_bytes(block).sum()) <= 2 * BLOCK_BYTES
            assert np.array_equal(block.starts_row, afresh(block).starts_row)


def test_blocks_are_full_over_several_pieces() -> None:
    pieces = [lines_of([b"%06d" % number], [bytes(90)]) for number in range(200)]
    blocks = blocks_of(pieces)
    assert [len(block) for block in blocks[:-1]] == [2 * BLOCK_BYTES // 104] * (len(blocks) - 1)


def test_only_lines_of_two_pieces_are_copied() -> None:
    def piece(first: int) -> Lines:
        return lines_of([b"%06d" % (first + number) for number in range(100)], [bytes(90)] * 100)

    first, second = piece(0), piece(100)
    blocks = blocks_of([first, second])

    def address(lines: Lines) -> int:
        buffer = lines.columns[0].buffers()[2]
        assert buffer is not None
        return buffer.address

    copied = [block for block in blocks if address(block) not in (address(first), address(second))]
    assert len(copied) == 1
    assert (copied[0].row(0), copied[0].row(-1)) < (b"000100", b"000119")


def test_blocks_of_lines_with_other_columns_are_no_larger() -> None:
    """Nulls of 999 columns took 37 MB in a block of 256 KiB."""
    wide = lines_of([b"0"], [b"v"], tuple([b"%03d" % column for column in range(300)]))
    narrow = lines_of([b"1%06d" % number for number in range(2000)], [b"v"] * 2000)
    chance = random.Random(drawn_seed())
    mixed = [
        lines_of([b"2%06d" % number], [bytes(chance.choice([0, 9, 90]))], tuple(sorted(chance.sample(NAMES, 3))))
        for number in range(500)
    ]
    by_cell = [replace(piece, timestamps=np.arange(3)[:, np.newaxis]) for piece in mixed]
    for pieces in ([wide, narrow], mixed, by_cell, [*narrow_pieces(), by_cell[0]]):
        blocks = blocks_of(pieces)
        assert [row for block in blocks for row in block.rows] == [row for piece in pieces for row in piece.rows]
        for block in blocks:
            bitmaps = len(block.columns) * (len(block) // 8 + 1)
            assert len(block) == 1 or int(uncompressed_bytes(block).sum()) <= 2 * BLOCK_BYTES + bitmaps


def narrow_pieces() -> list[Lines]:
    return [lines_of([b"1%06d" % number], [b""]) for number in range(90)]


@pytest.mark.parametrize(("byte_count", "count"), [(-5, 0), (0, 0), (99, 0), (100, 1), (399, 1), (400, 4), (9999, 5)])
def test_rows_that_fit_are_whole(byte_count: int, count: int) -> None:
    lines = lines_of([b"a", b"b", b"b", b"b", b"c"], [b""] * 5)
    assert fitting_lines(lines, np.full(5, 100), byte_count) == count


def test_what_a_slice_knows_of_its_rows_is_what_it_would_find() -> None:
    lines = lines_of([b"a", b"b", b"b", b"b", b"c", b"d"], [b""] * 6)
    assert lines.starts_row.tolist() == [True, True, False, False, True, True]
    for start in range(6):
        for stop in range(start + 1, 7):
            found = lines.slice(start, stop).starts_row
            assert found.tolist() == afresh(lines.slice(start, stop)).starts_row.tolist()
