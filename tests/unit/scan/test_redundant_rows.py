"""Rows of families without a requested column are read only if no other lines are known to return them."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace

import pytest
from rowlock_regionserver.cells import DELETE_FAMILY, DELETE_VERSION, PUT, Family, ReadPoint
from rowlock_regionserver.operations import FormColumn, ScanPlan
from rowlock_regionserver.row_groups import NO_ROW_GROUPS, RowGroups
from rowlock_regionserver.scan import redundant_rows
from rowlock_regionserver.scan.redundant_rows import RedundantRows, RemainingRows
from rowlock_regionserver.scan.scanner import scan
from rowlock_regionserver.sources import Source

from tests.property.list_source import ListSource, Write
from tests.unit.scan.whole_scans import all_rows_at

F, G, H = (Family(number, name) for number, name in enumerate((b"f", b"g", b"h"), 1))
OF_F, OF_G = FormColumn(b"f", b"q"), FormColumn(b"g", b"q")
READ_POINT = ReadPoint(10, 1000)


class Grouped(ListSource):
    """Lines of one cell a row, in groups of these rows; counts the rows that are read."""

    def __init__(self, family: Family, *groups: str, number: int = 1, timestamp: int = 5, block_count: int = 1) -> None:
        rows = [row.encode() for group in groups for row in group]
        super().__init__([Write(row, family.name, b"q", timestamp, number, PUT, row) for row in rows], has_lines=True)
        digests = [hashlib.sha256(group.encode()).digest() for group in groups]
        complete = [frozenset([b"q"])] * len(groups)
        firsts = [group[0].encode() for group in groups]
        self._groups = RowGroups(firsts, digests, complete, rows[-1], block_count, timestamp)
        self.number_min = number

    @property
    def write_number_min(self) -> int:
        return self.number_min

    @property
    def row_groups(self) -> RowGroups:
        return self._groups


class OlderLines(Grouped):
    """Some rows of groups of newer lines."""

    def __init__(self, family: Family, present: str, *, number: int) -> None:
        super().__init__(family, present, number=number)
        self._groups = NO_ROW_GROUPS

    def newer_are(self, newer: Grouped) -> None:
        self._groups = newer.row_groups.of_older_lines()


def delete(family: Family, row: bytes, number: int = 2) -> ListSource:
    return ListSource([Write(row, family.name, b"", 5, number, DELETE_FAMILY, b"")])


def scanned(
    *stores: tuple[Family, Sequence[Source]], form: Sequence[FormColumn] = (), **fields: object
) -> list[tuple[object, ...]]:
    plan = ScanPlan(row_form=tuple(form), **fields)  # type: ignore[arg-type]  # what a test names
    answers = scan(lambda: stores, plan, all_rows_at(READ_POINT))
    return [
        row for answer in answers for row in zip(*[column.to_pylist() for column in answer.table.columns], strict=True)
    ]


def rows(letters: str) -> list[tuple[object, ...]]:
    return [(letter.encode(),) for letter in letters]


def test_of_families_with_the_same_rows_one_is_read() -> None:
    f, g, h = Grouped(F, "ab", "cd", block_count=3), Grouped(G, "ab", "cd", block_count=2), Grouped(H, "ab", "cd")
    assert scanned((F, [f]), (G, [g]), (H, [h])) == rows("abcd")
    # The one with the fewest blocks.
    assert (f.cells_read, g.cells_read, h.cells_read) == (0, 0, 4)
    assert scanned((F, [f]), (G, [g]), (H, [h]), form=[OF_G]) == [(row, row) for (row,) in rows("abcd")]
    assert (f.cells_read, g.cells_read, h.cells_read) == (0, 4, 4)


@pytest.mark.parametrize("reverse", [False, True])
def test_groups_with_other_rows_are_read(reverse: bool) -> None:
    f, g = Grouped(F, "ab", "cd", "ef", "hi", "jk", block_count=2), Grouped(G, "ab", "cde", "hi", "j")
    expected = rows("abcdefhijk")
    assert scanned((F, [f]), (G, [g]), reverse=reverse) == (expected[::-1] if reverse else expected)
    assert (f.cells_read, g.cells_read) == (6, 8)


def test_rows_that_are_not_seen_do_not_stand_for_others() -> None:
    for hidden in (Grouped(G, "ab", number=11, block_count=0), Grouped(G, "ab", timestamp=900, block_count=0)):
        expiring = Family(2, b"g", time_to_live_ms=100)
        assert scanned((F, [Grouped(F, "ab")]), (expiring, [hidden])) == rows("ab")
    older = Grouped(G, "ab", block_count=0)
    newer = ListSource([Write(b"c", b"g", b"q", 5, 11, PUT, b"c")], has_lines=True)
    assert scanned((F, [Grouped(F, "ab")]), (G, [older, newer])) == rows("ab")


def test_rows_that_a_tombstone_may_hide_do_not_stand_for_others() -> None:
    g = [Grouped(G, "ab", block_count=0), delete(G, b"a")]
    assert scanned((F, [Grouped(F, "ab")]), (G, g)) == rows("ab")
    assert scanned((F, [Grouped(F, "ab")]), (G, g), form=[OF_G]) == [(b"a", None), (b"b", b"b")]
    # Of the family that is not read, a tombstone does not matter.
    f = [Grouped(F, "ab", block_count=1), delete(F, b"b")]
    assert scanned((F, f), (G, [Grouped(G, "ab")])) == rows("ab")


def test_versions_of_the_same_rows_are_read_once() -> None:
    old, new = Grouped(F, "ab", "cd"), Grouped(F, "ab", "cd", number=2)
    assert scanned((F, [old, new])) == rows("abcd")
    assert old.cells_read + new.cells_read == 4


def test_columns_that_newer_lines_have_in_each_row_are_not_read() -> None:
    p, q = FormColumn(b"f", b"p"), FormColumn(b"f", b"q")
    old = [Write(row, b"f", name, 5, 1, PUT, b"old " + name) for row in (b"a", b"b") for name in (b"p", b"q")]
    new = [Write(row, b"f", b"q", 5, 2, PUT, b"new") for row in (b"a", b"b")]
    older, newer = ListSource(old, has_lines=True), ListSource(new, has_lines=True)
    expected = [(b"a", b"old p", b"new"), (b"b", b"old p", b"new")]
    for sources in ([older, newer], [newer, older]):
        assert scanned((F, sources), form=[p, q]) == expected
        older.cells_read = 0
        assert scanned((F, sources), form=[q]) == [(b"a", b"new"), (b"b", b"new")]
        assert older.cells_read == 0
    # One of them is not newer in each cell.
    for number, timestamp in ((2, 4), (1, 5)):
        other = ListSource([*new[:1], Write(b"b", b"f", b"q", timestamp, number, PUT, b"other")], has_lines=True)
        older = ListSource(old[:2] + [replace(write, timestamp=timestamp + 1) for write in old[2:]], has_lines=True)
        assert scanned((F, [older, other]), form=[q]) == [(b"a", b"new"), (b"b", b"old q")]


@pytest.mark.parametrize("form", [[OF_F], []])
def test_older_lines_are_not_read_where_their_newer_ones_are_seen(form: list[FormColumn]) -> None:
    newer, older = Grouped(F, "abc", number=3), OlderLines(F, "ab", number=2)
    expected = [(row, row) if form else (row,) for (row,) in rows("abc")]
    assert scanned((F, [newer, older]), form=form) == expected
    assert (newer.cells_read, older.cells_read) == (3, 2)
    older.newer_are(newer)
    assert scanned((F, [newer, older]), form=form) == expected
    assert older.cells_read == 2
    # A newer version of some rows does not change that.
    newest = Grouped(F, "b", number=5)
    assert scanned((F, [newest, newer, older]), form=form) == expected
    assert older.cells_read == 2
    # A tombstone may hide the newer ones, and the read point may be before them.
    deletion = ListSource([Write(b"a", b"f", b"q", 5, 4, DELETE_VERSION, b"")])
    assert scanned((F, [newer, older, deletion]), form=form) == expected[1:]
    older = OlderLines(F, "ab", number=9)
    newer = Grouped(F, "abc", number=11)
    newer.number_min = 3  # as if a row without a place here had it
    older.newer_are(newer)
    assert scanned((F, [newer, older]), form=form) == expected[:2]
    assert older.cells_read == 2


def test_older_lines_do_not_stand_for_others() -> None:
    """They have some of the rows of their groups."""
    newer, older = Grouped(F, "abc", number=11, block_count=0), OlderLines(F, "ab", number=2)
    older.newer_are(newer)
    assert scanned((F, [newer, older]), (G, [Grouped(G, "abc", block_count=9)])) == rows("abc")


def test_what_was_read_ahead_is_used_when_another_source_comes() -> None:
    f, g = Grouped(F, "ab", "cd", block_count=2), Grouped(G, "ab", "cd")
    reduced = RedundantRows({}, READ_POINT)
    first = dict(reduced.reduced([(F, [f]), (G, [g])]))
    assert isinstance(first[F][0], RemainingRows)
    assert first[G] == [g]
    newer = ListSource([Write(b"c", b"g", b"q", 5, 2, PUT, b"c")])
    assert dict(reduced.reduced([(F, [f]), (G, [g, newer])])) == {F: first[F], G: [g, newer]}
    # Not of another source, nor if something else is redundant.
    other = Grouped(G, "ab")
    last = dict(reduced.reduced([(F, [f]), (G, [other])]))
    assert isinstance(last[F][0], RemainingRows)
    assert last[F] != first[F]


def test_sources_without_groups_are_read() -> None:
    f, g = ListSource([Write(b"a", b"f", b"q", 5, 1, PUT, b"")]), Grouped(G, "a")
    assert f.row_groups == NO_ROW_GROUPS
    assert scanned((F, [f]), (G, [g])) == rows("a")
    assert f.cells_read == 1


@pytest.mark.parametrize("reverse", [False, True])
def test_many_groups_are_passed_in_steps(monkeypatch: pytest.MonkeyPatch, reverse: bool) -> None:
    monkeypatch.setattr(redundant_rows, "_GROUPS_MAX", 2)
    f = Grouped(F, *"abcdefghij")
    covering = RowGroups([], [f.row_groups.digests[place] for place in (0, 1, 2, 3, 4, 7)], [], b"")
    covering.complete_columns.extend([frozenset()] * len(covering.digests))
    remaining = RemainingRows(f, frozenset(), [covering])
    found: list[str] = []
    start, stop = b"", b""
    while True:
        chunk = remaining.read_rows(start, stop, 1, reverse=reverse)
        found += [f"{row.decode()}" for row in chunk.table.column(0).to_pylist() if row is not None]
        if chunk.frontier is None:
            break
        assert chunk.frontier != (stop if reverse else start)
        start, stop = (start, chunk.frontier) if reverse else (chunk.frontier, stop)
    assert found == (list("jigf") if reverse else list("fgij"))
    assert remaining.empty_until(b"b", b"c") is None
    assert remaining.empty_until(b"h", b"h\0", reverse=reverse) is None
    assert remaining.empty_until(b"f", b"", reverse=reverse) == (b"j\0" if reverse else b"f")
