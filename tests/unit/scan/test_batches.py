"""Windows of whole rows are cut into batches."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
from rowlock_regionserver.arrow.columns import Integers, binary_array, integer_array
from rowlock_regionserver.cells import ANSWER_SCHEMA
from rowlock_regionserver.scan.batches import Batches, ScanAnswer

from tests.seeds import generator_of
from tests.unit.scan.buffers import addresses
from tests.unit.scan.whole_scans import CELL_BYTES


def window(rows: list[tuple[str, list[int]]]) -> tuple[pa.Table, Integers]:
    """Returns rows with cells of these sizes, without CELL_BYTES and one byte of the row."""
    names = [row.encode() for row, cells in rows for _ in cells]
    sizes = [size for _, cells in rows for size in cells]
    empty = binary_array([b""] * len(names))
    timestamps = integer_array(list(range(len(names))), pa.int64())
    values = binary_array([b"x" * size for size in sizes])
    lengths = [len(cells) for _, cells in rows]
    starts = np.cumsum([0, *lengths[:-1]], dtype=np.int64)
    return pa.Table.from_arrays([binary_array(names), empty, empty, timestamps, values], schema=ANSWER_SCHEMA), starts


def cut(batches: Batches, *windows: list[tuple[str, list[int]]]) -> list[ScanAnswer]:
    answers = [answer for rows in windows for answer in batches.add(*window(rows))]
    return answers + list(batches.drain())


def shown(answers: list[ScanAnswer]) -> list[str]:
    """Returns the rows of each batch's cells, and + for a row that continues."""
    return [
        "".join(cell["row"].decode() for cell in answer.table.to_pylist()) + ("+" if answer.row_continues else "")
        for answer in answers
    ]


CELL = CELL_BYTES + 1 + 10


def test_batches_hold_whole_rows_within_their_bytes() -> None:
    answers = cut(Batches(3 * CELL, 100), [("a", [10, 10]), ("b", [10]), ("c", [10])], [("d", [10]), ("e", [10, 10])])
    assert shown(answers) == ["aab", "cd", "ee"]
    assert [answer.row_count for answer in answers] == [2, 2, 1]


def test_full_batch_is_given_at_once() -> None:
    batches = Batches(2 * CELL, 100)
    assert shown(list(batches.add(*window([("a", [10]), ("b", [10])])))) == ["ab"]
    assert list(batches.drain()) == []
    batches = Batches(1 << 20, 2)
    assert shown(list(batches.add(*window([("a", [10]), ("b", [10])])))) == ["ab"]


def test_rows_are_counted_over_windows() -> None:
    assert shown(cut(Batches(1 << 20, 2), [("a", [1])], [("b", [1]), ("c", [1]), ("d", [1])])) == ["ab", "cd"]
    assert shown(cut(Batches(1 << 20, 3), [("a", [1]), ("b", [1])], [("c", [1]), ("d", [1])])) == ["abc", "d"]


def test_row_larger_than_a_batch_continues_in_the_next() -> None:
    answers = cut(Batches(2 * CELL, 100), [("a", [10]), ("b", [10] * 5), ("c", [10])])
    assert shown(answers) == ["a", "bb+", "bb+", "bc"]
    assert [answer.row_count for answer in answers] == [1, 0, 0, 2]


def test_batches_are_cut_alike_however_many_chunks_the_window_has() -> None:
    chance = random.Random(7)
    for _ in range(50):
        rows = [(chr(97 + i), [chance.randrange(40) for _ in range(chance.randrange(1, 6))]) for i in range(20)]
        table, starts = window(rows)
        padded = pa.concat_tables([table.slice(0, 2), table]).combine_chunks().slice(2)  # offsets that don't begin at 0
        step = chance.randrange(1, 9)
        chunked = pa.concat_tables([table.slice(i, step) for i in range(0, table.num_rows, step)])
        answers = []
        for same in (table, padded, chunked):
            batches = Batches(200, 100)
            answers.append(shown([*batches.add(same, starts), *batches.drain()]))
        assert answers[0] == answers[1] == answers[2]


def test_cell_larger_than_a_batch_stands_alone() -> None:
    answers = cut(Batches(CELL, 100), [("a", [10, 500, 10])], [("b", [500])])
    assert shown(answers) == ["a+", "a+", "a", "b"]


def test_batches_are_slices_of_what_was_given() -> None:
    table, starts = window([("a", [10]), ("b", [10]), ("c", [10])])
    for answer in [*Batches(CELL, 100).add(table, starts)]:
        assert addresses(answer.table) == addresses(table)


def test_cells_come_out_as_they_went_in() -> None:
    for seed in range(100):
        generator = generator_of(seed)
        rows = [
            (f"{row:02d}", [generator.randrange(40) for _ in range(generator.choice([1, 1, 2, 9]))])
            for row in range(20)
        ]
        bytes_max, rows_max = generator.choice([1, 50, 120, 400, 1 << 20]), generator.choice([1, 2, 3, 100])
        batches = Batches(bytes_max, rows_max)
        answers: list[ScanAnswer] = []
        start = 0
        while start < len(rows):
            stop = start + generator.randint(1, 6)
            answers += batches.add(*window(rows[start:stop]))
            start = stop
        answers += batches.drain()
        cells = [(cell["row"].decode(), len(cell["value"])) for answer in answers for cell in answer.table.to_pylist()]
        assert cells == [(row, size) for row, sizes in rows for size in sizes], f"seed {seed}"
        for answer in answers:
            found = answer.table.to_pylist()
            byte_count = sum(CELL_BYTES + len(cell["row"]) + len(cell["value"]) for cell in found)
            assert byte_count <= bytes_max or len(found) == 1, f"seed {seed}"
            assert len({cell["row"] for cell in found}) <= rows_max, f"seed {seed}"
        assert sum(answer.row_count for answer in answers) == len(rows), f"seed {seed}"
