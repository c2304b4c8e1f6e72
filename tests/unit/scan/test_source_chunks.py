"""How a merge reads ahead: which sources, how much, what it buffers, and that each row comes once."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
from rowlock_regionserver.cells import PUT
from rowlock_regionserver.config import MIB
from rowlock_regionserver.scan.source_chunks import SourceChunks
from rowlock_regionserver.sources import Chunk

from tests.property.list_source import ListSource, Write
from tests.seeds import drawn_seed


def rows(*numbers: int) -> ListSource:
    return ListSource([Write(b"%05d" % row, b"f", b"q", 1, 1, PUT, b"v") for row in numbers])


def rows_of(chunks: Sequence[Chunk]) -> list[int]:
    return [int(row or b"") for chunk in chunks for row in chunk.table.column("row").to_pylist()]


def steps(
    chunks: SourceChunks, sources: Sequence[ListSource], bytes_max: int, row_bytes_max: int = 1 << 40
) -> list[set[int]]:
    """Returns the rows of each step."""
    found = []
    while not chunks.is_exhausted:
        step = chunks.advance(sources, bytes_max, row_bytes_max)
        if isinstance(step, bytes):
            found.append({int(step)})
        else:
            found.append({row for of_source in step.values() for row in rows_of(of_source)})
    return found


def given(chunks: SourceChunks, sources: Sequence[ListSource], bytes_max: int) -> dict[int, list[Chunk]]:
    """Returns the next step, which is not a wide row."""
    step = chunks.advance(sources, bytes_max, 1 << 40)
    assert not isinstance(step, bytes)
    return step


def test_sources_that_come_later_are_not_read() -> None:
    sources = [rows(*range(100 * number, 100 * number + 100)) for number in range(50)]
    chunks = SourceChunks((b"", b""), reverse=False, bytes_held_max=MIB)
    assert rows_of(given(chunks, sources, 1)[id(sources[0])]) == [0]
    assert [source.cells_read for source in sources] == [1] + [0] * 49


def test_of_many_that_overlap_a_short_step_reads_few() -> None:
    sources = [rows(*range(number, 6000, 600)) for number in range(600)]
    chunks = SourceChunks((b"", b""), reverse=False, bytes_held_max=MIB)
    assert list(map(rows_of, given(chunks, sources, 32 * 1024).values())) == [[0]]
    assert sum(bool(source.cells_read) for source in sources) == 1
    backwards = SourceChunks((b"", b""), reverse=True, bytes_held_max=MIB)
    assert list(map(rows_of, given(backwards, sources, 32 * 1024).values())) == [[5999]]
    assert sum(bool(source.cells_read) for source in sources) == 2


@pytest.mark.parametrize("reverse", [False, True])
def test_each_row_is_given_once_and_in_order(reverse: bool) -> None:
    seed = drawn_seed()
    generator = random.Random(seed)
    for _ in range(60):
        count = generator.randint(1, 9)
        hands: list[list[int]] = [[] for _ in range(count)]
        for row in range(generator.randint(1, 200)):
            for hand in generator.sample(hands, generator.randint(1, min(2, count))):
                hand.append(row)
        sources = [
            ListSource(
                [
                    Write(b"%05d" % row, b"f", b"%d" % column, 1, 1, PUT, b"v")
                    for row in hand
                    for column in range(40 if row % 37 == 0 else 2)
                ],
                is_eager=generator.random() < 0.5,
                cells_at_once=generator.choice([1, 7, 1000]),
            )
            for hand in hands
        ]
        start, stop = generator.choice([(b"", b""), (b"00013", b""), (b"", b"00099"), (b"00037", b"00111")])
        chunks = SourceChunks((start, stop), reverse=reverse, bytes_held_max=generator.choice([0, 100, MIB]))
        found = steps(chunks, sources, generator.choice([1, 100, MIB]), generator.choice([20, 1 << 40]))
        ordered = [row for step in found for row in sorted(step, reverse=reverse)]
        wanted = {
            row for hand in hands for row in hand if start <= b"%05d" % row and (not stop or b"%05d" % row < stop)
        }
        assert ordered == sorted(wanted, reverse=reverse), seed


@pytest.mark.parametrize("reverse", [False, True])
def test_the_buffers_are_bounded(reverse: bool) -> None:
    """The sources' rows interleave, so without a bound all would be buffered."""
    sources = [rows(*range(number, 5000, 100)) for number in range(100)]
    bound = 10_000
    chunks = SourceChunks((b"", b""), reverse=reverse, bytes_held_max=bound)
    found: list[int] = []
    while not chunks.is_exhausted:
        step = given(chunks, sources, MIB)
        found += sorted({row for of_source in step.values() for row in rows_of(of_source)}, reverse=reverse)
        assert chunks.bytes_held <= bound
    assert found == sorted(range(5000), reverse=reverse)


@pytest.mark.parametrize("reverse", [False, True])
def test_a_wide_row_is_one_step_between_those_of_other_rows(reverse: bool) -> None:
    columns = {1: 1, 2: 40, 3: 1}
    wide = ListSource(
        [
            Write(b"%05d" % row, b"f", b"%d" % column, 1, 1, PUT, b"v")
            for row in columns
            for column in range(columns[row])
        ]
    )
    sources = [wide, rows(1, 2, 3)]
    chunks = SourceChunks((b"", b""), reverse=reverse, bytes_held_max=MIB)
    found: list[tuple[object, bytes]] = []
    for _ in columns:
        assert not chunks.is_exhausted
        step = chunks.advance(sources, MIB, 20)
        given_rows = step if isinstance(step, bytes) else [rows_of(of_source) for of_source in step.values()]
        found.append((given_rows, chunks.resume_key))
    assert chunks.is_exhausted
    if reverse:
        assert found == [([[3], [3]], b"00002\x00"), (b"00002", b"00002"), ([[1], [1]], b"")]
    else:
        assert found == [([[1], [1]], b"00002"), (b"00002", b"00002\x00"), ([[3], [3]], b"")]


def test_the_buffer_of_a_removed_source_is_dropped_and_a_new_source_is_read_from_there() -> None:
    first, second = rows(*range(100)), rows(*range(100))
    chunks = SourceChunks((b"", b""), reverse=False, bytes_held_max=MIB)
    before = rows_of([chunk for of_source in given(chunks, [first], 1).values() for chunk in of_source])
    after = [row for step in steps(chunks, [second], MIB) for row in sorted(step)]
    assert before + after == list(range(100))
    assert second.cells_read == 100 - len(before)
