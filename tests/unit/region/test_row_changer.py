"""Collapsing one mutation: equals a simple model, in time linear in its length."""

from __future__ import annotations

import random
import struct
import sys
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any

import pytest
from rowlock_regionserver.cells import (
    DELETE_COLUMN,
    DELETE_FAMILY,
    DELETE_VERSION,
    NEWEST,
    PUT,
    Cell,
    Family,
    ReadPoint,
)
from rowlock_regionserver.operations import Append, Change, Delete, DeleteKind, Increment, Put
from rowlock_regionserver.region.idempotency.answer_size import AnswerSize
from rowlock_regionserver.region.mutate.row_changer import RowChanger
from rowlock_regionserver.region.mutate.row_state import RowState
from rowlock_regionserver.versions.visibility import visible_cells
from rowlock_regionserver.wal.mutation import number_cells

from tests.seeds import drawn_seed

STAMP = 50
NOW_MS = 50
LARGE = 1 << 30
ONE = struct.pack(">q", 1)
QUALIFIERS = [b"", b"p", b"q"]
TraceFunction = Callable[[FrameType, str, Any], Any]


class PlainRow(RowState):
    """A row of one family with fixed cells."""

    def __init__(self, cells: Sequence[Cell]) -> None:
        self._columns: dict[bytes, list[Cell]] = {}
        self._family_tombstones = [cell for cell in cells if cell[3] == DELETE_FAMILY]
        for cell in cells:
            if cell[3] != DELETE_FAMILY:
                self._columns.setdefault(cell[0], []).append(cell)

    def column_cells(self, family: Family, qualifier: bytes) -> Sequence[Cell]:
        return sorted([*self._family_tombstones, *self._columns.get(qualifier, ())])


class PlainChanger:
    """The model: applies change by change, and looks at all cells each time."""

    def __init__(self, stored: Sequence[Cell], family: Family) -> None:
        self._stored = stored
        self._family = family
        self._puts: dict[tuple[bytes, int], bytes] = {}
        self._tombstones: set[tuple[bytes, int, int]] = set()
        self.results: list[tuple[bytes, int, bytes]] = []

    def visible(self) -> list[Cell]:
        own = [(qualifier, -at, -NEWEST, PUT, value) for (qualifier, at), value in self._puts.items()]
        own += [(qualifier, -at, -NEWEST, kind, b"") for qualifier, at, kind in self._tombstones]
        return visible_cells(sorted([*self._stored, *own]), ReadPoint(NEWEST, NOW_MS), self._family)

    def apply(self, change: Change) -> None:
        if isinstance(change, Delete):
            self._delete(change)
            return
        if isinstance(change, Put):
            self._puts[change.qualifier, STAMP if change.timestamp is None else change.timestamp] = change.value
            return
        assert isinstance(change, Append)
        newest = next((cell for cell in self.visible() if cell[0] == change.qualifier), None)
        at = STAMP if newest is None else max(STAMP, -newest[1])
        value = change.suffix if newest is None else newest[4] + change.suffix
        self._puts[change.qualifier, at] = value
        self.results.append((change.qualifier, at, value))

    def _delete(self, delete: Delete) -> None:
        if delete.kind is DeleteKind.VERSION:
            at = delete.timestamp
            if at is None:
                newest = next((cell for cell in self.visible() if cell[0] == delete.qualifier), None)
                if newest is None:
                    return
                at = -newest[1]
            self._puts.pop((delete.qualifier, at), None)
            self._tombstones.add((delete.qualifier, at, DELETE_VERSION))
            return
        is_column = delete.kind is DeleteKind.COLUMN
        own = [key for key in self._puts if not is_column or key[0] == delete.qualifier]
        through = max([STAMP, *[at for _, at in own]]) if delete.timestamp is None else delete.timestamp
        for key in own:
            if key[1] <= through:
                del self._puts[key]
        kind = DELETE_COLUMN if is_column else DELETE_FAMILY
        self._tombstones.add((delete.qualifier if is_column else b"", through, kind))


def drawn_change(chance: random.Random) -> Change:
    qualifier = chance.choice(QUALIFIERS)
    timestamp = chance.choice([None, None, chance.randrange(100)])
    match chance.randrange(8):
        case 0:
            return Delete(DeleteKind.FAMILY, b"f", timestamp=timestamp)
        case 1:
            return Delete(DeleteKind.COLUMN, b"f", qualifier, timestamp)
        case 2:
            return Delete(DeleteKind.VERSION, b"f", qualifier, timestamp)
        case 3 | 4 | 5:
            return Put(b"f", qualifier, b"%d" % chance.randrange(1000), timestamp)
        case _:
            return Append(b"f", qualifier, b"+")


def drawn_cell(chance: random.Random, write_number: int) -> Cell:
    kind = chance.choice([PUT, PUT, PUT, DELETE_VERSION, DELETE_COLUMN, DELETE_FAMILY])
    qualifier = b"" if kind == DELETE_FAMILY else chance.choice(QUALIFIERS)
    return qualifier, -chance.randrange(100), -write_number, kind, b"" if kind != PUT else b"%d" % write_number


def changer_of(stored: Sequence[Cell], family: Family) -> RowChanger:
    answer = AnswerSize(b"r", LARGE, LARGE)
    return RowChanger(b"r", {b"f": family}, PlainRow(stored), NOW_MS, STAMP, LARGE, answer)


def test_a_mutation_does_what_its_changes_do_one_after_the_other() -> None:
    seed = drawn_seed()
    chance = random.Random(seed)
    for _ in range(1500):
        versions = chance.choice([1, 1, 2, 3])
        family = Family(
            1, b"f", versions=versions, time_to_live_ms=chance.choice([0, 0, 20]), min_versions=chance.choice([0, 1])
        )
        stored = sorted(drawn_cell(chance, number) for number in range(1, chance.randrange(1, 12)))
        changer, plain = changer_of(stored, family), PlainChanger(stored, family)
        for _ in range(chance.randrange(1, 12)):
            change = drawn_change(chance)
            changer.apply(change)
            plain.apply(change)
        result = changer.result((), condition_met=True)
        assert [cell[1:] for cell in result.results] == plain.results
        cells = [cell for _, made in changer.cells() for cell in number_cells(made, NEWEST)]
        assert cells == sorted(cells)
        assert visible_cells(sorted([*stored, *cells]), ReadPoint(NEWEST, NOW_MS), family) == plain.visible()


def long_mutation(kind: str, column_count: int) -> list[Change]:
    qualifiers = [b"%04d" % i for i in range(column_count)]
    match kind:
        case "increments":
            return [Increment(b"f", qualifier, 1) for qualifier in qualifiers]
        case "newest versions":
            return [Delete(DeleteKind.VERSION, b"f", qualifier) for qualifier in qualifiers]
        case "deletes of other columns":
            deletes = [Delete(DeleteKind.COLUMN, b"f", qualifier) for qualifier in qualifiers]
            return [change for delete in deletes for change in (Put(b"f", b"p" + delete.qualifier, b""), delete)]
        case "deletes below one column":
            puts = [Put(b"f", b"0000", ONE, STAMP + i) for i in range(column_count)]
            return [*puts, *[Delete(DeleteKind.COLUMN, b"f", b"0000", 2)] * column_count]
        case "increments above versions":
            count = Increment(b"f", b"0000", 1)
            return [change for i in range(column_count) for change in (Put(b"f", b"0000", ONE, i), count)]
    puts = [Put(b"f", qualifier, ONE) for qualifier in qualifiers]
    return [*puts, *[Delete(DeleteKind.FAMILY, b"f", timestamp=2)] * column_count, *long_mutation("increments", 9)]


def lines_run(kind: str, column_count: int) -> int:
    """Returns how many lines of Python a mutation of `column_count` columns runs."""
    count = 0

    def trace(frame: FrameType, event: str, _: object) -> TraceFunction:
        nonlocal count
        count += event == "line"
        return trace

    changes = long_mutation(kind, column_count)
    changer = changer_of([(b"%04d" % i, -1, -1, PUT, ONE) for i in range(column_count)], Family(1, b"f"))
    before = sys.gettrace()
    sys.settrace(trace)
    try:
        for change in changes:
            changer.apply(change)
        changer.cells()
    finally:
        sys.settrace(before)
    return count


@pytest.mark.parametrize(
    "kind",
    [
        "increments",
        "newest versions",
        "deletes of other columns",
        "deletes below one column",
        "increments above versions",
        "deletes of the family",
    ],
)
def test_a_mutation_twice_as_long_takes_twice_the_work(kind: str) -> None:
    assert lines_run(kind, 400) < 2.5 * lines_run(kind, 200)
