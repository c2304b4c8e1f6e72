"""An increment that is a mutation of its own: as RowChanger makes it, from fewer sources."""

from __future__ import annotations

import itertools
import random
import struct
from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest
from rowlock_regionserver.cells import Family, PastLimits
from rowlock_regionserver.errors import RegionServerError
from rowlock_regionserver.found_cells import FoundCell
from rowlock_regionserver.memstore import memstore
from rowlock_regionserver.memstore.arrow_segment import ArrowSegment
from rowlock_regionserver.memstore.row_segment import RowSegment
from rowlock_regionserver.operations import AnswerCell, Condition, Delete, DeleteKind, Increment, Put, RowMutation
from rowlock_regionserver.region.idempotency.answer_size import AnswerSize
from rowlock_regionserver.region.mutate.lone_increment import incremented, lone_increment
from rowlock_regionserver.region.mutate.row_changer import COUNTER_MAX, RowChanger
from rowlock_regionserver.region.mutate.row_state import RowState
from rowlock_regionserver.storefile.wide_run import WideRun
from rowlock_regionserver.wal.mutation import UnnumberedCell

from tests.seeds import drawn_seed
from tests.unit.region.groups import has_group

from .conftest import bulk_batch
from .lone_region import LoneRegion

QUALIFIERS = [b"", b"n", b"o"]
# With so many more, a bulk batch is a segment of its own.
OTHERS = [b"c%03d" % number for number in range(200)]
# Later than all but one of the timestamps below, in turn with earlier than all of them.
STAMPS = [1, 30]
NOW_MS = 100


def counter(value: int) -> bytes:
    return struct.pack(">q", value)


def change(lone: LoneRegion, rows: Sequence[bytes], chance: random.Random) -> None:
    row, qualifier, timestamp = chance.choice(rows), chance.choice(QUALIFIERS), chance.randrange(2, 40)
    match chance.randrange(20):
        case 0:
            lone.change(row, Delete(DeleteKind.FAMILY, b"g", timestamp=timestamp))
        case 1:
            lone.change(row, Delete(DeleteKind.COLUMN, b"g", qualifier, timestamp))
        case 2:
            lone.change(row, Delete(DeleteKind.VERSION, b"g", qualifier, timestamp))
        case 3 | 4:
            lone.bulk(
                bulk_batch(*[(each, b"g", qualifier, timestamp, counter(timestamp)) for each in (*rows, *OTHERS)])
            )
        case 5:
            lone.flush()
        case 6:
            lone.change(row, Put(b"g", qualifier, chance.choice([b"text", counter(COUNTER_MAX)]), timestamp))
        case _:
            lone.change(row, Put(b"g", qualifier, counter(timestamp), timestamp))


def by_row_changer(
    lone: LoneRegion, row: bytes, family: Family, increment: Increment, stamp: int
) -> tuple[list[UnnumberedCell], list[AnswerCell]] | None:
    """The cells and results; None if it is refused."""
    answer = AnswerSize(row, 1000, 1000)
    changer = RowChanger(row, {b"g": family}, state_of(lone, row), NOW_MS, stamp, 1000, answer)
    try:
        changer.apply(increment)
    except RegionServerError:
        return None
    ((_, cells),) = changer.cells()
    return cells, list(changer.result((), condition_met=True).results)


def state_of(lone: LoneRegion, row: bytes) -> RowState:
    return RowState(lone.parts.stores.served.lookups, row, 0)


def families(family: Family) -> Iterator[Family]:
    yield family
    yield replace(family, time_to_live_ms=NOW_MS - 20)
    yield replace(family, past=(PastLimits(3, 1, 0),))


def test_it_is_made_as_by_row_changer_whatever_the_sources(lone: LoneRegion) -> None:
    chance = random.Random(drawn_seed())
    made = 0
    for step in range(60):
        rows = [b"a%d" % (step // 6), b"b%d" % (step // 6)]  # New ones, because the tombstone of a family stays.
        change(lone, rows, chance)
        for row, qualifier, stamp in itertools.product(rows, QUALIFIERS, STAMPS):
            increment = Increment(b"g", qualifier, chance.choice([1, -5]))
            for family in families(lone.table.by_name[b"g"]):
                expected = by_row_changer(lone, row, family, increment, stamp)
                cells = state_of(lone, row).newest_column_cells(family, qualifier)
                found = incremented(increment, family, cells, stamp)
                if found is not None:
                    made += 1
                    assert expected == ([found.cell], [found.answer])
    assert made > 20


@pytest.mark.parametrize("timestamp", [8, 9, 10])
def test_it_reads_no_segment_whose_cells_are_all_older(
    lone: LoneRegion, monkeypatch: pytest.MonkeyPatch, timestamp: int
) -> None:
    family = lone.table.by_name[b"g"]
    # So long that it is a segment of its own.
    lone.bulk(bulk_batch(*[(b"%d" % number, b"g", b"n", 9, b"v" * 900) for number in range(8)]))
    lone.change(b"0", Put(b"g", b"n", counter(1), timestamp))
    assert [type(source) for source in lone.parts.stores.view[family.number][1]] == [RowSegment, ArrowSegment]
    asked: list[bytes] = []
    columns_cells = ArrowSegment.columns_cells

    def recorded(segment: ArrowSegment, row: bytes, qualifiers: Sequence[bytes]) -> list[FoundCell]:
        asked.append(row)
        return columns_cells(segment, row, qualifiers)

    monkeypatch.setattr(ArrowSegment, "columns_cells", recorded)
    state_of(lone, b"0").newest_column_cells(family, b"n")
    assert len(asked) == (timestamp <= 9)


def test_it_reads_no_older_file_after_a_group_of_segments(lone: LoneRegion, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memstore, "MERGED_COUNT_MIN", 1000)
    family = lone.table.by_name[b"g"]

    def load(timestamp: int) -> None:
        lone.bulk(bulk_batch(*[(b"%d" % number, b"g", b"n", timestamp, b"v" * 900) for number in range(8)]))

    load(1)
    lone.flush()
    for timestamp in range(2, 10):
        load(timestamp)
    _, view, lookups = lone.parts.stores.served
    sources = view[family.number][1]
    assert [type(source) for source in sources] == [RowSegment, *[ArrowSegment] * 8, WideRun]
    assert has_group(lookups[family.number], sources), "no group"
    assert lookups[family.number].candidates(b"0")[-1] is sources[-1]
    monkeypatch.setattr(WideRun, "columns_cells", None)  # Not called.
    cells = state_of(lone, b"0").newest_column_cells(family, b"n")
    assert -cells[0][1] == 9


def test_a_mutation_that_is_more_than_one_increment_is_none() -> None:
    increment = Increment(b"g", b"n", 1)
    assert lone_increment(RowMutation(b"a", (increment,))) == increment
    for mutation in (
        RowMutation(b"a", (increment, increment)),
        RowMutation(b"a", (Put(b"g", b"n", b"v"),)),
        RowMutation(b"a", (increment,), Condition()),
    ):
        assert lone_increment(mutation) is None
