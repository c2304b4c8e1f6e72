"""What is written while the regions of a split are prepared: it does not wait, and the new regions have it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest
from rowlock_regionserver.cells import Durability
from rowlock_regionserver.errors import DeadlineError, NotServingRegionError, RegionTooBusyError
from rowlock_regionserver.host.region_changes import RegionChanges
from rowlock_regionserver.operations import (
    Append,
    Delete,
    DeleteKind,
    Increment,
    Put,
    RequestId,
)
from rowlock_regionserver.region import copied_changes
from rowlock_regionserver.region.copied_changes import CopiedChanges
from rowlock_regionserver.region.region_parts import MadeFolder
from rowlock_regionserver.region.succession import NUMBERS_AHEAD_MAX
from rowlock_regionserver.region.successor import finish_successor_folder

from tests.unit.region.conftest import bulk_batch
from tests.waiting import WAIT_S, wait_until

from . import writes_meanwhile
from .feed_reading import Fed
from .serving_table import FAMILIES, Serving
from .writes_meanwhile import (
    CLIENT,
    SNAPSHOT,
    WHEN,
    When,
    memory_is_counted,
    put_bulk,
    put_rows,
    split_and_copy,
    split_and_prepare,
    without_log,
)


@pytest.fixture
def table(tmp_path: Path) -> Iterator[Serving]:
    serving = Serving(tmp_path)
    yield serving
    serving.server.stop()


@WHEN
def test_the_new_regions_have_all_kinds_of_changes(table: Serving, when: When) -> None:
    for row in (b"r1", b"r2", b"r5", b"r6"):
        table.put(row, b"before")
    old = table.regions[0]

    def write() -> None:
        table.put(b"r1", b"put")
        table.change(b"r2", Delete(DeleteKind.ROW))
        table.change(b"r5", Append(b"f", b"q", b" and after"))
        table.change(b"r6", Put(b"f", b"q", b"two"), Put(b"g", b"q", b"families"))
        table.put(b"r7", b"old", 5, b"g")
        table.put(b"r7", b"new", 6, b"g")
        table.change(b"r7", Delete(DeleteKind.VERSION, b"g", b"q", 6))

    when(table, write)
    expected = [
        (b"r1", b"put"),
        (b"r5", b"before and after"),
        (b"r6", b"two"),
        (b"r6", b"families"),
        (b"r7", b"old"),
    ]
    assert table.bounds == [(b"", b"r3"), (b"r3", b"")]
    assert table.scan() == expected
    assert memory_is_counted(table)
    assert [region.newest_write_number for region in table.regions] == [old.newest_write_number] * 2
    for begin_again in (table.crash, table.restart, lambda: table.server.flush("t"), table.crash, table.compact):
        begin_again()
        assert table.scan() == expected
        assert memory_is_counted(table)
    for region in table.regions:
        region._check()
    table.put(b"r1", b"newer")
    table.change(b"r6", Delete(DeleteKind.ROW))
    assert (table.get(b"r1"), table.get(b"r6")) == ([b"newer"], [])


@WHEN
def test_changes_without_a_log_record_are_in_the_new_regions(table: Serving, when: When) -> None:
    table.server.drop_table("t")
    table.server.create_table("t", FAMILIES, Durability.SKIP)

    def write() -> None:
        without_log(table, b"r1", b"v")
        without_log(table, b"r7", b"v")

    when(table, write)
    expected = [(b"r1", b"v"), (b"r7", b"v")]
    for then in (lambda: table.server.flush("t"), table.crash):
        assert table.scan() == expected
        then()
    assert table.scan() == expected


def a_batch_in_columns(table: Serving) -> None:
    put_rows(table, [b"r1", b"r7"], b"batch")


def a_bulk_batch(table: Serving) -> None:
    cells = [(row, b"f", b"q", None, b"batch") for row in (b"r1", b"r7")]
    put_bulk(table, bulk_batch(*cells))


BATCHES = pytest.mark.parametrize("batch", [a_batch_in_columns, a_bulk_batch])


def until_it_waits(table: Serving) -> None:
    """Waits until a batch waits for the end of the split."""
    commit = table.regions[0]._writers.commit
    wait_until(lambda: len(commit._noting._waiters) == 1)  # type: ignore[attr-defined]


@BATCHES
@WHEN
def test_a_batch_waits_and_is_refused_by_the_region_that_was_split(
    table: Serving, when: When, batch: Callable[[Serving], None]
) -> None:
    with ThreadPoolExecutor(1) as pool:
        made: list[Future[None]] = []

        def write() -> None:
            made.append(pool.submit(batch, table))
            until_it_waits(table)
            table.put(b"r2", b"meanwhile")

        when(table, write)
        with pytest.raises(NotServingRegionError):
            made[0].result(WAIT_S)
    assert table.scan() == [(b"r2", b"meanwhile")]


@BATCHES
def test_a_batch_that_waited_is_made_if_the_split_fails(
    table: Serving, monkeypatch: pytest.MonkeyPatch, batch: Callable[[Serving], None]
) -> None:
    with ThreadPoolExecutor(1) as pool:
        made: list[Future[None]] = []

        def write() -> None:
            made.append(pool.submit(batch, table))
            until_it_waits(table)
            monkeypatch.setattr(copied_changes, "NUMBERS_AHEAD_MAX", -1)

        with pytest.raises(RegionTooBusyError):
            split_and_copy(table, write)
        made[0].result(WAIT_S / 2)
    assert table.scan() == [(b"r1", b"batch"), (b"r7", b"batch")]


def test_a_batch_waits_until_its_deadline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = Serving(tmp_path)
    monkeypatch.setattr(writes_meanwhile, "WAIT_S", 0.05)
    refused: list[str] = []

    def write() -> None:
        for batch in (a_batch_in_columns, a_bulk_batch):
            with pytest.raises(DeadlineError) as raised:
                batch(table)
            refused.append(raised.value.message)

    split_and_copy(table, write)
    assert len(refused) == 2
    assert "waited for the end of a split" in refused[0]
    assert table.scan() == []
    table.server.stop()


@WHEN
def test_a_repeated_request_gets_its_answer_from_the_new_region(table: Serving, when: When) -> None:
    increment, requests = Increment(b"f", b"n", 5), [RequestId(CLIENT, 1, 1), RequestId(CLIENT, 2, 1)]
    answers: list[object] = []

    def write_all() -> list[object]:
        first = table.change(b"r1", increment, request=requests[0]).results
        second = table.change(b"r7", increment, request=requests[1]).results
        return [first, second]

    when(table, lambda: answers.extend(write_all()))
    for begin_again in (table.crash, lambda: table.server.flush("t"), table.crash):
        assert write_all() == answers
        begin_again()
    assert [len(table.get(row)) for row in (b"r1", b"r7")] == [1, 1]


def test_changes_are_copied_in_rounds_before_writes_have_to_wait(
    table: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual, rounds = CopiedChanges._copy, list[int]()
    counts = iter([10, 6, 9])  # The third round has more than half as many as the second.

    def put(count: int) -> None:
        for number in range(count):
            table.put(b"r1", b"%d" % number)

    def copy(copied: CopiedChanges) -> int:
        rounds.append(usual(copied))
        put(next(counts, 0))
        return rounds[-1]

    monkeypatch.setattr(CopiedChanges, "_copy", copy)
    split_and_prepare(table, partial(put, 30))
    assert rounds == [30, 10, 6, 9]
    assert table.scan() == [(b"r1", b"8")]


def test_the_first_manifest_has_no_answer_of_a_later_change(table: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    finish, listed = finish_successor_folder, list[object]()

    def write_and_finish(*arguments: object) -> MadeFolder:
        if not listed:
            table.change(b"r1", Put(b"f", b"q", b"v"), request=RequestId(CLIENT, 1, 1))
        made = finish(*arguments)  # type: ignore[arg-type]
        listed.append(made.live.manifest.answers)
        return made

    monkeypatch.setattr(f"{RegionChanges.__module__}.finish_successor_folder", write_and_finish)
    table.split(b"r3")
    assert listed == [(), ()]
    assert [region._parts.idempotency.statistics().saved_answers for region in table.regions] == [1, 0]


def test_a_snapshot_that_is_made_meanwhile_reads_its_moment(table: Serving) -> None:
    for row in (b"r1", b"r7"):
        table.put(row, b"before")

    def write() -> None:
        for row in (b"r1", b"r7"):
            table.put(row, b"meanwhile")
        table.server.make_snapshot("t", SNAPSHOT, 0, "")
        for number in range(100):  # A row that is written often is pruned.
            for row in (b"r1", b"r7"):
                table.put(row, b"%d" % number)
        for row in (b"r1", b"r7"):
            table.put(row, b"later")

    # A snapshot waits for the lock of the catalog, which the split holds.
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(table.server, "operation", lambda *_: contextlib.nullcontext())
        split_and_prepare(table, write)
    rows = [b"r1", b"r7"]
    for then in (lambda: None, lambda: table.server.flush("t"), table.compact):
        then()
        assert table.scan(snapshot_id=SNAPSHOT) == [(row, b"meanwhile") for row in rows]
        assert table.scan() == [(row, b"later") for row in rows]


@WHEN
@pytest.mark.parametrize("then", [lambda fed: None, Fed.crash], ids=["at once", "after a crash"])
def test_a_change_feed_has_each_change_once(tmp_path: Path, when: When, then: Callable[[Fed], object]) -> None:
    fed = Fed(tmp_path)
    fed.put_all(b"1", row=b"r1")
    begun, offsets = fed.offset, list[dict[int, int]]()

    def write() -> None:
        for value, row in ((b"2", b"r1"), (b"3", b"r7"), (b"4", b"r1")):
            fed.put_all(value, row=row)
            offsets.append(fed.offset)

    when(fed, write)
    for _ in range(2):
        then(fed)
    fed.put_all(b"5", row=b"r7")
    fed.put_all(b"6", row=b"r1")
    assert fed.values(begun) == [b"2", b"4", b"6", b"3", b"5"]
    assert [fed.values(offset) for offset in offsets] == [
        [b"4", b"6", b"3", b"5"],
        [b"4", b"6", b"5"],
        [b"6", b"5"],
    ]
    assert fed.values() == [b"1", b"2", b"4", b"6", b"3", b"5"]
    fed.server.stop()


def ancestors_end(fed: Fed) -> list[int]:
    """Returns the last numbers of the ancestors that the regions know."""
    states = [region._parts.changes.state for region in fed.regions]
    return [ancestor.last for state in states if state is not None for ancestor in state.ancestors]


def test_the_last_number_of_an_ancestor_is_known_unless_the_server_crashes_before_a_manifest(
    tmp_path: Path,
) -> None:
    fed = Fed(tmp_path)
    fed.put_all(b"1", row=b"r1")
    split_and_prepare(fed, lambda: fed.put_all(b"2", b"3", row=b"r7"))
    assert ancestors_end(fed) == [3, 3]
    fed.crash()
    assert ancestors_end(fed) == [1 + NUMBERS_AHEAD_MAX] * 2
    split_again = fed.regions[1]
    fed.server.split_region(fed.name, split_again.region_id, b"r5")
    for row in (b"r4", b"r6"):
        fed.put_all(b"4", row=row)
    fed.server.flush("fed")
    last = split_again.newest_write_number
    assert sorted(ancestors_end(fed)) == [last, last, *[1 + NUMBERS_AHEAD_MAX] * 3]
    fed.crash()
    assert sorted(ancestors_end(fed)) == [last, last, *[1 + NUMBERS_AHEAD_MAX] * 3]
    assert fed.values() == [b"1", b"4", b"2", b"3", b"4"]
    fed.server.stop()


@WHEN
def test_stamps_that_clients_have_reserved_meanwhile_stay_reserved(table: Serving, when: When) -> None:
    reserved: list[int] = []

    def reserve() -> None:
        given = table.server.timestamp_range("t", 500)
        reserved.append(given.now_ms + given.reserved_ms)

    when(table, reserve)
    table.crash()
    for row in (b"r1", b"r7"):
        assert table.put(row, b"later").timestamp > reserved[0]
