"""Batches are joined and left out without losing rows."""

from __future__ import annotations

import pyarrow as pa
import pytest
from rowlock.cli.transfer import batches
from rowlock.cli.transfer.batches import BATCH_BYTES_MAX, Read, batch_bytes_for, joined, without_first


def reads(*counts: int) -> list[Read]:
    """Returns batches of so many rows, which are numbered."""
    found = []
    position = 0
    for count in counts:
        values = pa.array(range(position, position + count), pa.int64())
        position += count
        found.append(Read(pa.record_batch({"n": values}), position))
    return found


@pytest.fixture
def any_number_of_small_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "_JOINED_PER_MEBIBYTE", 1 << 20)


def rows(found: list[Read]) -> list[int | None]:
    return [row for read in found for row in read.batch.column("n").to_pylist()]


@pytest.mark.parametrize("bytes_max", [1, 8, 40, 10_000])
@pytest.mark.usefixtures("any_number_of_small_ones")
def test_joined_batches_have_the_same_rows(bytes_max: int) -> None:
    found = list(joined(reads(3, 1, 4, 1, 5), bytes_max))
    assert rows(found) == list(range(14))
    assert [read.position for read in found][-1] == 14
    assert all(read.batch.nbytes <= max(bytes_max, 40) for read in found)
    assert len(found) == {1: 5, 8: 5, 40: 3, 10_000: 1}[bytes_max]


def test_few_batches_are_joined_even_if_they_are_small() -> None:
    found = list(joined(reads(*[1] * 20), 4 << 20))
    assert rows(found) == list(range(20))
    assert [read.batch.num_rows for read in found] == [8, 8, 4]


@pytest.mark.parametrize("count", range(12))
def test_the_first_rows_are_left_out(count: int) -> None:
    assert rows(list(without_first(reads(3, 4, 3), count))) == list(range(count, 10))


def test_small_files_have_small_batches() -> None:
    assert batch_bytes_for(0) == 1 << 20
    assert batch_bytes_for(32 << 20) == 2 << 20
    assert batch_bytes_for(1 << 40) == BATCH_BYTES_MAX
