"""Row groups are those of the rows, however lines and blocks are cut, and say which rows a file's lines have."""

from __future__ import annotations

import hashlib
import random
import struct
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from rowlock_regionserver.arrow.columns import binary_array
from rowlock_regionserver.arrow.line_forming import COLUMNS_MAX
from rowlock_regionserver.arrow.line_values import spread_values
from rowlock_regionserver.arrow.lines import Lines
from rowlock_regionserver.errors import CorruptionError
from rowlock_regionserver.row_groups import NO_ROW_GROUPS, RowGroups
from rowlock_regionserver.storefile import metadata, row_digests
from rowlock_regionserver.storefile.reader import read_metadata
from rowlock_regionserver.storefile.row_digests import RowDigests
from rowlock_regionserver.storefile.verify import verify_store_file

from tests.unit.storefile.store_file_case import Case, simple_cells

ONE = np.ones((1, 1), np.int64)


@pytest.fixture(autouse=True)
def small_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_digests, "ROWS_MIN", 3)
    monkeypatch.setattr(row_digests, "CANDIDATE_BITS", 2)


def lines_of(rows: Sequence[bytes]) -> Lines:
    versions = np.arange(len(rows), 0, -1, dtype=np.int64)[np.newaxis]
    return Lines(binary_array([b"before", *rows]).slice(1), versions, ONE, (b"q",), (binary_array([b"v"] * len(rows)),))


def groups_of(*pieces: Sequence[bytes]) -> RowGroups:
    digests = RowDigests()
    for piece in pieces:
        digests.add(lines_of(piece))
    return digests.finish()


def digest_of(rows: Sequence[bytes]) -> bytes:
    lengths = b"".join([struct.pack("<I", len(row)) for row in rows])
    parts = [hashlib.sha256(part).digest() for part in (lengths, b"".join(rows))]
    return hashlib.sha256(b"".join(parts)).digest()


def some_rows(chance: random.Random, count: int = 200) -> list[bytes]:
    return sorted({b"%x" % chance.randrange(1 << chance.choice([8, 40, 90])) for _ in range(count)})


def test_groups_do_not_depend_on_how_lines_are_cut() -> None:
    chance = random.Random(1)
    rows = some_rows(chance)
    groups = groups_of(rows)
    assert len(groups) > 10
    for _ in range(20):
        cuts = sorted(chance.choices(range(len(rows) + 1), k=5))
        assert groups_of(*[rows[a:b] for a, b in pairwise([0, *cuts, len(rows)]) if a < b]) == groups
    # A row with several lines counts once.
    assert groups_of([row for row in rows for _ in range(3)]) == groups


def test_a_digest_is_that_of_the_lengths_and_the_rows() -> None:
    rows = some_rows(random.Random(2))
    groups = groups_of(rows)
    for group, digest in enumerate(groups.digests):
        start, stop = groups.bounds(group)
        assert digest == digest_of([row for row in rows if start <= row < stop])
    assert groups.of_range(b"", b"") == range(len(groups))
    assert groups_of([b"a", b"bc"]).digests != groups_of([b"ab", b"c"]).digests


def test_behind_a_row_that_only_one_has_groups_are_equal_again() -> None:
    chance = random.Random(3)
    rows = some_rows(chance, 2000)
    groups = groups_of(rows)
    for _ in range(10):
        other = groups_of([row for row in rows if row != chance.choice(rows)])
        assert len(set(groups.digests) - set(other.digests)) < 10


def test_the_groups_of_a_range_have_all_its_rows() -> None:
    rows = some_rows(random.Random(4))
    groups = groups_of(rows)
    for start, stop in pairwise([b"", *rows[::7], b""]):
        places = groups.of_range(start, stop)
        for group in range(len(groups)):
            first, last = groups.bounds(group)
            has_rows = any(first <= row < last and row >= start and (not stop or row < stop) for row in rows)
            assert group in places or not has_rows
    assert groups.of_range(rows[-1] + b"\0", b"") == range(0)
    assert NO_ROW_GROUPS.of_range(b"", b"") == range(0)


def test_a_file_has_the_groups_of_its_lines(case: Case) -> None:
    cells = simple_cells(100, 3)
    info = case.write(cells, forms_lines=True)
    run = case.open_file(info).runs[0]
    groups = groups_of(sorted({row for row, _ in cells}))
    assert (run.row_groups.first_rows, run.row_groups.digests) == (groups.first_rows, groups.digests)
    assert run.row_groups.block_count == info.wide_block_count > 1
    assert run.row_groups.timestamp_max == info.timestamp_max
    assert verify_store_file(case.path, info, case.files) == []
    assert case.open_file(case.write(cells)).runs[0].row_groups == NO_ROW_GROUPS


def test_groups_say_which_columns_are_complete() -> None:
    rows = some_rows(random.Random(5))
    null_places = random.Random(6).sample(range(len(rows)), 5)
    filled = np.setdiff1d(np.arange(len(rows)), null_places)
    columns = spread_values(binary_array([b"v"] * len(filled)), filled, len(rows)), binary_array([b"v"] * len(rows))
    with_nulls = Lines(binary_array(rows), ONE, ONE, (b"p", b"q"), columns)
    digests = RowDigests()
    for first in range(0, len(rows), 7):
        digests.add(with_nulls.slice(first, min(len(rows), first + 7)))
    groups = digests.finish()
    for group, complete in enumerate(groups.complete_columns):
        start, stop = groups.bounds(group)
        has_null = any(start <= rows[place] < stop for place in null_places)
        assert complete == ({b"q"} if has_null else {b"p", b"q"})
    assert len(set(groups.complete_columns)) == 2


def test_of_many_columns_none_is_called_complete() -> None:
    columns = tuple(sorted(b"%d" % column for column in range(COLUMNS_MAX + 1)))
    digests = RowDigests()
    for number, name in enumerate(columns):
        digests.add(replace(lines_of([b"%06d" % number]), qualifiers=(name,)))
    assert set(digests.finish().complete_columns) == {frozenset()}


def test_a_digest_of_other_rows_is_found(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    info = case.write(simple_cells(100, 3), forms_lines=True)
    with case.path.open("rb") as file:
        contents = read_metadata(case.path, info, case.files, file.fileno())
    groups = contents.row_groups
    for wrong in (
        replace(groups, digests=[*groups.digests[:-1], bytes(32)]),
        replace(groups, complete_columns=[frozenset(), *groups.complete_columns[1:]]),
    ):
        found = replace(contents, row_groups=wrong)
        monkeypatch.setattr("rowlock_regionserver.storefile.verify.read_metadata", lambda *_, found=found: found)
        [damage] = verify_store_file(case.path, info, case.files)
        assert "row groups" in str(damage)


def test_groups_that_are_not_those_of_the_blocks_are_refused(case: Case) -> None:
    info = case.write(simple_cells(100, 3), forms_lines=True)
    with case.path.open("rb") as file:
        contents = read_metadata(case.path, info, case.files, file.fileno())
    groups = contents.row_groups
    assert metadata.decode(metadata.encode(contents), case.path, 0).row_groups == groups
    first, *others = groups.first_rows
    for first_rows in ([b"a", *others], [first, *others[::-1]], [first, *others[:-1], b"s"]):
        wrong = replace(contents, row_groups=replace(groups, first_rows=first_rows))
        with pytest.raises(CorruptionError, match="row groups"):
            metadata.decode(metadata.encode(wrong), case.path, 0)
    # A file of an earlier version has none.
    earlier = metadata.encode(replace(contents, row_groups=NO_ROW_GROUPS))
    assert metadata.decode(earlier, case.path, 0).row_groups == NO_ROW_GROUPS
