"""What is written while the regions of a split are prepared: it does not wait, and the new regions have it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from rowlock_regionserver.cells import Durability
from rowlock_regionserver.operations import (
    Append,
    Delete,
    DeleteKind,
    Increment,
    Put,
    RequestId,
    RowResult,
)
from rowlock_regionserver.region.bulk.bulk_load import BulkResult
from rowlock_regionserver.region.succession import NUMBERS_AHEAD

from tests.unit.region.conftest import bulk_batch
from tests.unit.region.row_batches import row_batch

from .feed_reading import Fed
from .serving_table import CONFIG, FAMILIES, Serving
from .writes_meanwhile import (
    CLIENT,
    SNAPSHOT,
    WHEN,
    When,
    memory_is_counted,
    put_bulk,
    put_rows,
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
        put_rows(table, [b"r21", b"r61"], b"rows")
        put_rows(table, [b"r22"], b"rows of one half")
        batch = bulk_batch(
            (b"r23", b"f", b"q", None, b"bulk"), (b"r5", b"g", b"q", 7, b"bulk"), (b"r6", b"g", b"q", None, None)
        )
        put_bulk(table, batch)

    when(table, write)
    expected = [
        (b"r1", b"put"),
        (b"r21", b"rows"),
        (b"r22", b"rows of one half"),
        (b"r23", b"bulk"),
        (b"r5", b"before and after"),
        (b"r5", b"bulk"),
        (b"r6", b"two"),
        (b"r61", b"rows"),
    ]
    assert table.bounds == [(b"", b"r3"), (b"r3", b"")]
    assert table.scan() == expected
    assert memory_is_counted(table)
    assert [region._parts.mvcc.last for region in table.regions] == [old._parts.mvcc.last] * 2
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
        without_log(table, b"r1", b"row")
        put_rows(table, [b"r2", b"r7"], b"rows", Durability.SKIP)
        put_bulk(table, bulk_batch((b"r8", b"f", b"q", None, b"bulk")), Durability.SKIP)

    when(table, write)
    expected = [(b"r1", b"row"), (b"r2", b"rows"), (b"r7", b"rows"), (b"r8", b"bulk")]
    for then in (lambda: table.server.flush("t"), table.crash):
        assert table.scan() == expected
        then()
    assert table.scan() == expected


@WHEN
def test_a_bulk_batch_in_a_file_is_cut(tmp_path: Path, when: When) -> None:
    table = Serving(tmp_path, replace(CONFIG, bulk_file_bytes_min=1))
    batch = bulk_batch((b"r1", b"f", b"q", None, b"bulk"), (b"r5", b"f", b"q", None, b"bulk"))
    rows = row_batch([(b"f", b"q"), (b"g", b"q")], [(b"r2", None, [b"line", b"line"]), (b"r6", 5, [b"line", None])])

    def write() -> None:
        assert not table.names("bulk")
        put_bulk(table, batch)
        put_bulk(table, rows)  # type: ignore[arg-type]
        assert len(table.names("bulk")) == 2

    when(table, write)
    expected = [(b"r1", b"bulk"), (b"r2", b"line"), (b"r2", b"line"), (b"r5", b"bulk"), (b"r6", b"line")]
    assert table.names("bulk") == []  # The new regions' records have the cells.
    for then in (table.crash, table.crash, lambda: table.server.flush("t"), table.crash):
        assert table.scan() == expected
        assert memory_is_counted(table)
        then()
    # Of the families f and g of the left region, and of f of the right one.
    assert [file.cell_count for file in table.file_facts()] == [2, 1, 2]
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


@WHEN
def test_rows_of_a_batch_keep_their_requests(table: Serving, when: When) -> None:
    made: list[RowResult] = []
    when(table, lambda: made.extend(put_rows(table, [b"r1", b"r2", b"r7"], b"first", first=11)))
    for begin_again in (table.crash, lambda: table.server.flush("t"), table.crash):
        for row, sequence in ((b"r1", 11), (b"r2", 12), (b"r7", 13)):
            again = table.change(row, Put(b"f", b"q", b"again"), request=RequestId(CLIENT, sequence, 1))
            assert again.timestamp == made[0].timestamp
        assert {value for _, value in table.scan()} == {b"first"}
        assert [region._parts.idempotency.statistics().saved_answers for region in table.regions] == [2, 1]
        begin_again()


@WHEN
def test_a_bulk_batch_keeps_its_request_in_both_regions(table: Serving, when: When) -> None:
    """It may be sent again to any of them."""
    request = RequestId(CLIENT, 3, 1)
    batch = bulk_batch((b"r1", b"f", b"q", None, b"bulk"))
    made: list[BulkResult] = []
    when(table, lambda: made.append(put_bulk(table, batch, request=request)))
    of_the_right = bulk_batch((b"r7", b"f", b"q", None, b"wrong"))
    part = RequestId(CLIENT, 4, 1, parts_of=(3,))
    for begin_again in (table.crash, lambda: table.server.flush("t"), table.crash):
        again = put_bulk(table, batch, request=request)
        assert (again.repeated_request, again.timestamp) == (True, made[0].timestamp)
        assert put_bulk(table, of_the_right, request=part, place=1).repeated_request
        assert table.scan() == [(b"r1", b"bulk")]
        begin_again()


def test_a_snapshot_that_is_made_meanwhile_reads_its_moment(table: Serving) -> None:
    for row in (b"r1", b"r7"):
        table.put(row, b"before")

    def write() -> None:
        for row in (b"r1", b"r7"):
            table.put(row, b"meanwhile")
        put_rows(table, [b"r2", b"r8"], b"meanwhile")
        table.server.make_snapshot("t", SNAPSHOT, 0, "")
        for number in range(100):  # A row that is written often is pruned.
            for row in (b"r1", b"r7"):
                table.put(row, b"%d" % number)
        for row in (b"r1", b"r7"):
            table.put(row, b"later")
        put_rows(table, [b"r2", b"r8"], b"later")

    # A snapshot waits for the lock of the catalog, which the split holds.
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(table.server, "operation", lambda *_: contextlib.nullcontext())
        split_and_prepare(table, write)
    rows = [b"r1", b"r2", b"r7", b"r8"]
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


def test_the_last_number_of_an_ancestor_is_in_the_next_manifest(tmp_path: Path) -> None:
    fed = Fed(tmp_path)
    fed.put_all(b"1", row=b"r1")
    split_and_prepare(fed, lambda: fed.put_all(b"2", b"3", row=b"r7"))
    assert ancestors_end(fed) == [3, 3]
    fed.crash()
    assert ancestors_end(fed) == [1 + NUMBERS_AHEAD] * 2
    split_again = fed.regions[1]
    fed.server.split_region(fed.name, split_again.region_id, b"r5")
    for row in (b"r4", b"r6"):
        fed.put_all(b"4", row=row)
    fed.server.flush("fed")
    last = split_again.newest_write_number
    assert sorted(ancestors_end(fed)) == [last, last, *[1 + NUMBERS_AHEAD] * 3]
    fed.crash()
    assert sorted(ancestors_end(fed)) == [last, last, *[1 + NUMBERS_AHEAD] * 3]
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
