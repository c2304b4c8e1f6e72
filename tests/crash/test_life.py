"""The judge of the campaigns accepts what may be found after a crash, and nothing else."""

from __future__ import annotations

import pytest
from rowlock_regionserver.cells import Durability
from rowlock_regionserver.operations import Delete, DeleteKind, Increment, Put

from tests.crash.life import DONE, NOT_SENT, SENT, Judge, committing_life, small_life, splitting_life
from tests.crash.steps import (
    AlterTable,
    BulkCommit,
    BulkWrite,
    CreateSnapshot,
    CreateTable,
    DropSnapshot,
    DropTable,
    Flush,
    RestoreSnapshot,
    Rows,
    RowWrite,
    StageBulk,
    Step,
    Store,
    TableState,
)

FSYNC, OS = Durability.FSYNC, Durability.OS


def put(number: int, durability: Durability = FSYNC) -> RowWrite:
    value = b"%d" % number
    return RowWrite("t", b"r", (Put(b"f", b"a", value), Put(b"g", b"a", value)), durability)


def row(number: int) -> Rows:
    return {b"r": {b"f:a": b"%d" % number, b"g:a": b"%d" % number}}


def store(rows: Rows) -> Store:
    return {"t": TableState({b"f", b"g"}, rows)}


def problem(steps: list[Step], last: int, found: Store, survives: Durability = FSYNC) -> str | None:
    """Of a life whose last step is SENT, or, for a negative one, in which that many steps from the end are not sent."""
    steps = [CreateTable("t", (b"f", b"g")), *steps]
    progress = [DONE] * (len(steps) - 1) + [last]
    return Judge(steps, progress, survives).problem(found)


def test_what_was_acknowledged_must_be_there_and_what_was_not_may_be() -> None:
    steps: list[Step] = [put(1), put(2)]
    assert problem(steps, DONE, store(row(2))) is None
    assert problem(steps, SENT, store(row(2))) is None
    assert problem(steps, SENT, store(row(1))) is None
    for found in (row(1), {}, row(3)):
        assert problem(steps, DONE, store(found)) is not None
    assert problem(steps, NOT_SENT, store(row(2))) is not None


def test_a_row_that_is_there_in_part_is_told() -> None:
    half: Rows = {b"r": {b"f:a": b"2", b"g:a": b"1"}}
    told = problem([put(1), put(2)], SENT, store(half))
    assert told is not None
    assert "b'r'" in told


def test_a_bulk_batch_that_is_there_in_part_is_told() -> None:
    cells = tuple((b"%d" % place, b"f", b"q", b"v") for place in range(3))
    steps: list[Step] = [BulkWrite("t", cells, FSYNC)]
    whole: Rows = {b"%d" % place: {b"f:q": b"v"} for place in range(3)}
    assert problem(steps, SENT, store(whole)) is None
    assert problem(steps, SENT, store({})) is None
    assert problem(steps, SENT, store({b"0": whole[b"0"]})) is not None


@pytest.mark.parametrize("replaces", [False, True])
def test_a_bulk_commit_is_there_in_all_regions_or_in_none(*, replaces: bool) -> None:
    batches = tuple(tuple((b"%d" % place, b"f", b"q", value) for place in range(4)) for value in (b"first", b"second"))
    commit = BulkCommit("job", "t", batches, replaces)
    steps: list[Step] = [put(1), StageBulk(commit), commit]
    written: Rows = {b"%d" % place: {b"f:q": b"second"} for place in range(4)}
    after = written if replaces else {**row(1), **written}
    assert problem(steps[:2], DONE, store(row(1))) is None
    assert problem(steps[:2], DONE, store(after)) is not None
    for last, may_be_missing in ((SENT, True), (DONE, False)):
        assert problem(steps, last, store(after)) is None
        assert (problem(steps, last, store(row(1))) is None) == may_be_missing
        half = {number: after[number] for number in list(after)[:2]}
        other = {**row(1), **written} if replaces else written
        for found in (half, other, {**after, b"2": {b"f:q": b"first"}}, {}):
            assert problem(steps, last, store(found)) is not None


def test_a_power_cut_may_take_what_was_not_synced_but_only_from_the_end() -> None:
    steps: list[Step] = [put(1, OS), put(2), RowWrite("t", b"s", (Put(b"f", b"a", b"3"),), OS), put(4, OS)]
    third: Rows = {b"s": {b"f:a": b"3"}}
    for found in (row(2), row(2) | third, row(4) | third):
        assert problem(steps, DONE, store(found)) is None
    for found in (row(4), row(1), third):
        assert problem(steps, DONE, store(found)) is not None
    assert problem(steps, DONE, store(row(2) | third), survives=OS) is not None


def test_a_flush_makes_durable_what_was_not_synced() -> None:
    steps: list[Step] = [put(1, OS), Flush("t")]
    assert problem(steps, DONE, store(row(1))) is None
    assert problem(steps, DONE, store({})) is not None
    assert problem(steps, SENT, store({})) is None


def test_a_condition_that_was_not_met_says_nothing_of_the_writes_before_it() -> None:
    checked = RowWrite("t", b"r", (Put(b"f", b"a", b"9"),), FSYNC, expected=(b"f", b"a", b"not this"))
    assert problem([put(1, OS), checked], DONE, store({})) is None
    met = RowWrite("t", b"r", (Put(b"f", b"a", b"9"),), FSYNC, expected=(b"f", b"a", b"1"))
    assert problem([put(1, OS), met], DONE, store({})) is not None


def test_a_table_operation_is_there_once_it_is_acknowledged() -> None:
    dropped: list[Step] = [put(1), DropTable("t")]
    assert problem(dropped, DONE, {}) is None
    assert problem(dropped, DONE, store(row(1))) is not None
    assert problem(dropped, SENT, store(row(1))) is None
    altered: list[Step] = [put(1), AlterTable("t", dropped=b"g")]
    without: Store = {"t": TableState({b"f"}, {b"r": {b"f:a": b"1"}})}
    assert problem(altered, DONE, without) is None
    assert problem(altered, DONE, store(row(1))) is not None


def test_deletes_and_increments_are_modelled() -> None:
    steps: list[Step] = [
        put(1),
        RowWrite("t", b"r", (Delete(DeleteKind.ROW), Increment(b"f", b"n", 2)), FSYNC),
        RowWrite("t", b"r", (Increment(b"f", b"n", 3),), FSYNC),
    ]
    assert problem(steps, DONE, store({b"r": {b"f:n": (5).to_bytes(8, "big")}})) is None


@pytest.mark.parametrize("seed", range(20))
def test_every_life_has_each_kind_of_step(seed: int) -> None:
    kinds = {type(step).__name__ for step in small_life(seed)}
    assert {"RowWrite", "BulkWrite", "CreateTable", "AlterTable", "Flush", "Restart"} <= kinds


@pytest.mark.parametrize("seed", range(20))
def test_every_life_drops_a_table_and_creates_one_of_its_name_which_is_written(seed: int) -> None:
    steps = small_life(seed)
    place = next(place for place, step in enumerate(steps) if isinstance(step, DropTable))
    dropped, created, write = steps[place : place + 3]
    assert isinstance(dropped, DropTable)
    assert isinstance(created, CreateTable)
    assert isinstance(write, RowWrite)
    assert dropped.table == created.table == write.table
    assert all(step.changes != write.changes for step in steps[:place] if isinstance(step, RowWrite))


def test_a_table_of_a_dropped_ones_name_has_only_what_was_written_to_it() -> None:
    old, both, create = store(row(2)), store(row(2) | {b"s": {b"f:a": b"1"}}), CreateTable("t", (b"f", b"g"))
    new: Store = store({b"s": {b"f:a": b"1"}})
    write = RowWrite("t", b"s", (Put(b"f", b"a", b"1"),), FSYNC)
    steps: list[Step] = [put(1), put(2), DropTable("t"), create, write]
    # As many steps as were sent: what must be found if the last one was answered, and what else may be if it was not.
    for sent, done, earlier in ((3, {}, old), (4, store({}), {}), (5, new, store({}))):
        assert problem(steps[:sent], DONE, done) is None
        assert problem(steps[:sent], SENT, done) is None
        assert problem(steps[:sent], SENT, earlier) is None
        for found in (found for found in (old, both, {}, store({}), new, store(row(1))) if found != done):
            assert problem(steps[:sent], DONE, found) is not None
            assert (problem(steps[:sent], SENT, found) is None) == (found == earlier)


@pytest.mark.parametrize("seed", range(20))
def test_every_life_of_splits_has_each_kind_of_step(seed: int) -> None:
    kinds = {type(step).__name__ for step in splitting_life(seed)}
    assert {"RowWrite", "Split", "Merge", "Compact", "Restart"} <= kinds


@pytest.mark.parametrize("seed", range(20))
def test_every_life_of_bulk_commits_has_each_kind_of_commit_and_one_that_is_not_made(seed: int) -> None:
    steps = committing_life(seed)
    commits = [step for step in steps if isinstance(step, BulkCommit)]
    assert {(step.replaces, step.is_large) for step in commits} == {
        (a, b) for a in (False, True) for b in (False, True)
    }
    staged = [step.commit.session for step in steps if isinstance(step, StageBulk)]
    assert len(set(staged) - {step.session for step in commits}) == 1
    assert len(staged) > 3
    assert {"RowWrite", "Split", "Flush", "Compact", "Restart"} <= {type(step).__name__ for step in steps}


def test_a_snapshot_has_exactly_what_was_answered_before_it() -> None:
    steps: list[Step] = [put(1, OS), CreateSnapshot("s", "t"), put(2)]
    before, after = TableState({b"f", b"g"}, row(1)), TableState({b"f", b"g"}, row(2))
    assert problem(steps, DONE, {"t": after, "@s": before}) is None
    for found in ({"t": after}, {"t": after, "@s": after}, {"t": after, "@s": TableState({b"f", b"g"})}):
        assert problem(steps, DONE, found) is not None
    # Its call makes durable what was before it, if it was answered.
    assert problem(steps[:2], SENT, {"t": TableState({b"f", b"g"})}) is None
    assert problem(steps[:2], DONE, {"t": TableState({b"f", b"g"}), "@s": before}) is not None
    assert problem(steps[:2], DONE, {"t": before, "@s": before}) is None


def test_a_restored_table_begins_with_the_snapshot() -> None:
    steps: list[Step] = [put(1), CreateSnapshot("s", "t"), put(2), DropTable("t"), RestoreSnapshot("s", "t"), put(3)]
    old, new = TableState({b"f", b"g"}, row(1)), TableState({b"f", b"g"}, row(3))
    assert problem(steps, SENT, {"t": old, "@s": old}) is None
    assert problem(steps, DONE, {"t": new, "@s": old}) is None
    assert problem(steps, SENT, {"t": TableState({b"f", b"g"}, row(2)), "@s": old}) is not None
    assert problem([*steps[:5], DropSnapshot("s")], DONE, {"t": old}) is None
    assert problem([*steps[:5], DropSnapshot("s")], DONE, {"t": old, "@s": old}) is not None
