"""What COMPARE reads of a row: only the columns and families that it needs, equally from every kind of source."""

from __future__ import annotations

import random
import struct
import time

import pytest
from rowlock_regionserver.cells import DELETE_FAMILY
from rowlock_regionserver.files import Files
from rowlock_regionserver.found_cells import FoundCell
from rowlock_regionserver.memstore import memstore
from rowlock_regionserver.operations import (
    Check,
    ColumnSelector,
    Condition,
    Delete,
    DeleteKind,
    Increment,
    Put,
    RowMutation,
    Selection,
    WriteOptions,
)
from rowlock_regionserver.region.mutate.row_state import RowState

from tests.seeds import drawn_seed
from tests.unit.region.groups import has_group
from tests.waiting import WAIT_S

from .conftest import Engine, bulk_batch
from .lone_region import LoneRegion

ROWS = [b"a", b"b", b"c"]
QUALIFIERS = [b"", b"\x00", b"n", b"n\x00", b"o"]


def change(lone: LoneRegion, kind: int, chance: random.Random) -> None:
    row, qualifier = chance.choice(ROWS), chance.choice(QUALIFIERS)
    match kind:
        case 0:
            lone.change(row, Delete(DeleteKind.FAMILY, b"g", timestamp=chance.choice([None, 3])))
        case 1:
            lone.change(row, Delete(DeleteKind.COLUMN, b"g", qualifier))
        case 2:
            cells = [(each, b"g", qualifier, chance.randrange(9), b"b" * 900) for each in ROWS for _ in range(4)]
            lone.bulk(bulk_batch(*cells))
        case 3:
            lone.flush()
        case _:
            lone.change(row, Put(b"g", qualifier, b"v", chance.choice([None, chance.randrange(9)])))


def test_a_column_is_read_as_it_stands_in_the_row_whatever_the_sources(
    lone: LoneRegion, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memstore, "MERGED_COUNT_MIN", 1000)
    seed = drawn_seed()
    chance = random.Random(seed)
    family = lone.table.by_name[b"g"]

    def of_column(cells: list[FoundCell], qualifier: bytes) -> list[FoundCell]:
        return [cell for cell in cells if cell[0] == qualifier or cell[3] == DELETE_FAMILY]

    kinds: set[str] = set()
    # Bulk loads and a flush are certain, so that there are sources of each kind, and a group of segments.
    for kind in [2, *chance.choices(range(8), k=40), 3, *[2] * 8, *chance.choices([0, 1, 2, 4], k=40)]:
        change(lone, kind, chance)
        _, view, lookups = lone.parts.stores.served
        kinds.update(type(source).__name__ for source in view[family.number][1])
        row = chance.choice(ROWS)
        state = RowState(lookups, row, 0)
        whole = list(state.family_cells(family))
        assert whole == sorted(cell for source in view[family.number][1] for cell in source.row_cells(row))
        for qualifier in [*QUALIFIERS, b"absent", b"\xff"]:
            assert list(state.column_cells(family, qualifier)) == of_column(whole, qualifier)
    assert kinds >= {"RowSegment", "ArrowSegment", "WideRun"}
    assert has_group(lookups[family.number], view[family.number][1]), "no group"


@pytest.mark.parametrize("flush", [False, True])
def test_a_counter_in_a_row_of_many_columns_is_read_alone(lone: LoneRegion, flush: bool) -> None:
    many = tuple(Put(b"f", b"%06d" % i, struct.pack(">q", 7)) for i in range(30_000))
    lone.change(b"r", *many)
    if flush:
        lone.flush()
    (family,) = [family for family in lone.table.families if family.name == b"f"]
    state = RowState(lone.parts.stores.served.lookups, b"r", 0)
    assert len(state.column_cells(family, b"015000")) == 1
    result = lone.change(b"r", Increment(b"f", b"015000", 1), condition=Condition((Check(b"f", b"x", operand=None),)))
    assert result.results[0][3] == struct.pack(">q", 8)


def test_what_is_not_read_need_not_be_in_memory(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise a counter whose row has other families in files would always need a worker."""
    monkeypatch.setattr(Files, "pread_into_at_once", lambda *_: None)  # The system has nothing in memory.
    engine.change(b"r", Put(b"f", b"q", b"v"), Increment(b"g", b"n", 1))
    engine.restart()  # Nothing is in the block cache.
    region, options = engine.region, WriteOptions(time.monotonic() + WAIT_S)
    counter = Selection(columns=(ColumnSelector(b"g", b"n"),))
    count = RowMutation(b"r", (Increment(b"g", b"n", 1),))
    assert region.get([b"r"], counter, may_wait=False) is None
    assert not region.mutate([count], options, lambda _: None, may_wait=False)
    assert region.get([b"r"], counter, may_wait=True)
    assert region.get([b"r"], counter, may_wait=False)
    assert region.mutate([count], options, lambda _: None, may_wait=False)
    assert region.get([b"r"], Selection(), may_wait=False) is None
    exists = RowMutation(b"r", (Put(b"g", b"n", b"v"),), Condition((Check(b"f", b"q", operand=b"v"),)))
    assert not region.mutate([exists], options, lambda _: None, may_wait=False)
