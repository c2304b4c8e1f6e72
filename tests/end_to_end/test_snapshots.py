"""Snapshots over the wire: one moment for many scans, until it ends, over flushes, losses and restarts."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pytest
import rowlock
from rowlock._transport.servers import Servers
from rowlock.pytest_plugin import RowlockServer
from rowlock.snapshot import make_snapshot

from tests.end_to_end.lossy_proxy import LossyProxy
from tests.end_to_end.server_command import ServerCommand
from tests.waiting import wait_until

Rows = list[tuple[bytes, dict[bytes, bytes]]]


@pytest.fixture
def table(rowlock_client: rowlock.Client) -> rowlock.Table[bytes]:
    return rowlock_client.create_table("t", {"f": rowlock.Family(versions=2), "g": rowlock.Family()})


def test_all_scans_of_a_snapshot_see_the_moment_at_which_it_was_made(
    rowlock_client: rowlock.Client, table: rowlock.Table[bytes]
) -> None:
    for number in range(20):
        table.put(b"%02d" % number, {b"f:a": b"old", b"g:b": b"%d" % number})
    before: Rows = list(table.scan())
    with rowlock_client.snapshot("t", lease_s=600) as snapshot:
        assert (snapshot.table, snapshot.lease_s, len(snapshot.id)) == ("t", 600, 16)
        assert abs(snapshot.made_ms - rowlock_client.server_info().now_ms) < 600_000
        for round_number in range(3):
            table.delete(b"%02d" % round_number)
            table.put(b"05", {b"f:a": b"new %d" % round_number})
            table.put(b"9%d" % round_number, {b"f:a": b"later"})
            rowlock_client.flush("t")
            assert list(table.scan(snapshot=snapshot)) == before
            assert list(table.scan(snapshot=snapshot.id, reverse=True)) == before[::-1]
            assert list(table.scan(prefix=b"05", snapshot=snapshot)) == before[5:6]
        snapshot.renew()
        assert list(table.scan()) != before
    with pytest.raises(rowlock.SnapshotEndedError, match=r"ended at .* UTC: .*make a new snapshot") as caught:
        list(table.scan(snapshot=snapshot))
    assert (caught.value.table, caught.value.reason) == ("t", "its holder ended it")
    assert abs(caught.value.ended_ms - rowlock_client.server_info().now_ms) < 600_000
    with pytest.raises(rowlock.SnapshotEndedError):
        snapshot.renew()
    snapshot.end()


@pytest.mark.parametrize("is_dropped", [True, False])
def test_a_snapshot_of_a_table_that_another_client_created_again_is_read(
    rowlock_server: RowlockServer, rowlock_client: rowlock.Client, table: rowlock.Table[bytes], *, is_dropped: bool
) -> None:
    table.put(b"r", {b"f:a": b"old"})
    with rowlock.connect(rowlock_server.address) as other:
        if is_dropped:
            other.drop_table("t")
            other.create_table("t", ["f"])
        else:
            other.truncate_table("t")
        other.table("t").put(b"r", {b"f:a": b"new"})
    with rowlock_client.snapshot("t") as snapshot:
        scan = table.scan(snapshot=snapshot)
        assert list(scan) == [(b"r", {b"f:a": b"new"})]
        assert not scan.resumed


def test_a_snapshot_ends_with_its_table(rowlock_client: rowlock.Client, table: rowlock.Table[bytes]) -> None:
    table.put(b"r", {b"f:a": b"1"})
    first = rowlock_client.snapshot("t")
    rowlock_client.truncate_table("t")
    with pytest.raises(rowlock.SnapshotEndedError, match="truncated"):
        list(table.scan(snapshot=first))
    second = rowlock_client.snapshot("t")
    assert list(table.scan(snapshot=second)) == []
    rowlock_client.drop_table("t")
    with pytest.raises(rowlock.SnapshotEndedError, match="dropped"):
        second.renew()
    with pytest.raises(rowlock.TableNotFoundError):
        rowlock_client.snapshot("t")


def test_a_snapshot_that_expired_says_when_and_why(rowlock_client: rowlock.Client, table: rowlock.Table[bytes]) -> None:
    snapshot = rowlock_client.snapshot("t", lease_s=0.001)
    wait_until(lambda: not any(item.table == "t" for each in rowlock_client.sessions() for item in each.held))
    with pytest.raises(
        rowlock.SnapshotEndedError, match=r"ended at [0-9: -]* UTC: it was not used for its lease of 0.001 s; make"
    ) as caught:
        list(table.scan(snapshot=snapshot))
    assert caught.value.reason == "it was not used for its lease of 0.001 s"
    assert abs(caught.value.ended_ms - rowlock_client.server_info().now_ms) < 600_000


def test_a_snapshot_lets_its_table_be_altered(rowlock_client: rowlock.Client, table: rowlock.Table[bytes]) -> None:
    table.put(b"r", {b"f:a": b"1", b"g:b": b"2"})
    with rowlock_client.snapshot("t") as snapshot:
        table.put(b"r", {b"f:a": b"3"})
        rowlock_client.alter_table("t", set_families={"h": rowlock.Family()}, drop_families=["g"])
        assert list(table.scan(snapshot=snapshot)) == [(b"r", {b"f:a": b"1"})]
        with pytest.raises(rowlock.FamilyNotFoundError):
            list(table.scan(columns=["g"], snapshot=snapshot))


def test_a_snapshot_of_another_process_is_opened_by_its_id(
    rowlock_client: rowlock.Client, rowlock_server: RowlockServer, table: rowlock.Table[bytes]
) -> None:
    table.put(b"r", {b"f:a": b"1"})
    taken = rowlock_client.snapshot("t", lease_s=60)
    table.put(b"r", {b"f:a": b"2"})
    with rowlock.connect(rowlock_server.address) as other:
        opened = other.open_snapshot(taken.id)
        assert (opened.id, opened.table, opened.made_ms, opened.lease_s) == (taken.id, "t", taken.made_ms, 60)
        assert list(other.table("t").scan(snapshot=opened)) == [(b"r", {b"f:a": b"1"})]
        opened.end()
        with pytest.raises(rowlock.SnapshotEndedError):
            other.open_snapshot(taken.id)
    with pytest.raises(rowlock.InvalidArgumentError, match="16 bytes"):
        rowlock_client.open_snapshot(b"short")


def test_an_object_that_is_no_snapshot_is_refused(rowlock_client: rowlock.Client, table: rowlock.Table[bytes]) -> None:
    other = rowlock_client.create_table("other", ["f"])
    snapshot = rowlock_client.snapshot("t")
    with pytest.raises(rowlock.InvalidArgumentError, match="of table 't'"):
        other.scan(snapshot=snapshot)
    for nonsense in (b"", b"x" * 15, b"x" * 17):
        with pytest.raises(rowlock.InvalidArgumentError, match="16 bytes"):
            table.scan(snapshot=nonsense)
    for lease_s in (0, -1, float("nan"), float("inf")):
        with pytest.raises(rowlock.InvalidArgumentError, match="lease_s"):
            rowlock_client.snapshot("t", lease_s=lease_s)
    with pytest.raises(rowlock.LimitExceededError, match="snapshot_lease_ms_max"):
        rowlock_client.snapshot("t", lease_s=86_401)
    with pytest.raises(rowlock.SnapshotEndedError, match="no snapshot of that id"):
        list(table.scan(snapshot=b"x" * 16))


def test_after_a_kill_a_snapshot_has_ended(
    rowlock_server: RowlockServer, rowlock_client: rowlock.Client, table: rowlock.Table[bytes]
) -> None:
    table.put(b"r", {b"f:a": b"1"})
    incarnation_id = rowlock_client.server_info().incarnation_id
    snapshot = rowlock_client.snapshot("t")
    rowlock_server.kill()
    rowlock_server.restart()
    with pytest.raises(rowlock.SnapshotEndedError, match="restarted"):
        list(table.scan(snapshot=snapshot))
    with pytest.raises(rowlock.SnapshotEndedError, match="restarted"):
        snapshot.renew()
    with (
        closing(Servers((rowlock_server.address,))) as servers,
        pytest.raises(rowlock.SnapshotEndedError, match="was restarted"),
    ):
        make_snapshot(servers, "t", snapshot.id, incarnation_id, 0, 30)
    with rowlock_client.snapshot("t") as again:
        assert list(table.scan(snapshot=again)) == [(b"r", {b"f:a": b"1"})]


def test_an_asyncio_client_makes_and_reads_snapshots(
    rowlock_server: RowlockServer, table: rowlock.Table[bytes]
) -> None:
    async def run() -> None:
        async with rowlock.aio.connect(rowlock_server.address, timeout=30) as db:
            own = db.table("t")
            await own.put(b"r", {b"f:a": b"1"})
            kept = await db.snapshot("t")
            async with db.snapshot("t", lease_s=60) as snapshot:
                await own.put(b"r", {b"f:a": b"2"})
                await snapshot.renew()
                assert [row async for row in own.scan(snapshot=snapshot)] == [(b"r", {b"f:a": b"1"})]
                assert [row async for row in own.scan()] == [(b"r", {b"f:a": b"2"})]
            with pytest.raises(rowlock.SnapshotEndedError):
                await own.scan(snapshot=snapshot).to_arrow()
            assert (await own.scan(snapshot=kept).to_arrow()).num_rows == 1
            await kept.end()

    asyncio.run(run())


@pytest.fixture
def proxied(tmp_path: Path) -> Iterator[tuple[LossyProxy, rowlock.Client]]:
    """A server that advertises the proxy's address, and a client that connects through the proxy."""
    proxy = LossyProxy()
    words = ("--data", tmp_path / "data", "--listen", "127.0.0.1:0", "--advertise", proxy.address)
    with ServerCommand(*words) as server:
        proxy.stand_before(server.ready())
        with rowlock.connect(proxy.address, timeout=60) as db:
            db.create_table("t", ["f"])
            yield proxy, db
    proxy.close()


def test_a_scan_of_a_snapshot_that_loses_its_connection_resumes_at_the_same_moment(
    proxied: tuple[LossyProxy, rowlock.Client],
) -> None:
    proxy, db = proxied
    table = db.table("t")
    table.put_arrow(
        pa.table({"k": list(range(40_000)), "v": ["x" * 50] * 40_000}), "k BIGINT :key ordered, v STRING f:v"
    )
    with db.snapshot("t") as snapshot:
        for strict in (False, True):
            scan = table.scan(batch_bytes=100_000, snapshot=snapshot, strict=strict)
            rows = []
            for row, data in scan:
                rows.append(row)
                assert data == {b"f:v": b"x" * 50}
                if len(rows) in (1000, 20_000):
                    table.put(row + b"\0", {b"f:v": b"later"})
                    table.put(b"\xff" * 8, {b"f:v": b"later"})
                    proxy.cut()
            assert len(rows) == 40_000
            assert rows == sorted(set(rows))
            assert not scan.resumed
    assert len(list(table.scan())) == 40_003


def test_sums_that_writers_keep_are_kept_in_every_snapshot(
    rowlock_client: rowlock.Client, table: rowlock.Table[bytes]
) -> None:
    """Writers move amounts between counters within a row, atomically; each row sums to 100."""
    for number in range(50):
        table.put(b"%02d" % number, {b"f:a": b"50", b"g:b": b"50"})
    is_over = threading.Event()

    def write() -> None:
        step = 0
        while not is_over.is_set():
            step += 1
            share = step % 101
            table.put(b"%02d" % (step % 50), {b"f:a": b"%d" % share, b"g:b": b"%d" % (100 - share)})

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for round_number in range(5):
            with rowlock_client.snapshot("t") as snapshot:
                first: Rows = list(table.scan(snapshot=snapshot))
                if round_number % 2:
                    rowlock_client.flush("t")
                assert list(table.scan(snapshot=snapshot)) == first
                assert all(int(data[b"f:a"]) + int(data[b"g:b"]) == 100 for _, data in first)
                assert len(first) == 50
    finally:
        is_over.set()
        writer.join()
