"""Named snapshots over the wire, by both faces, and what status and verify say about them."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
import rowlock
from rowlock.pytest_plugin import RowlockServer
from rowlock_regionserver.inspection import verify

MAPPING = "id STRING :key, delay INT info:delay"


def test_a_table_comes_back_as_it_was(rowlock_client: rowlock.Client) -> None:
    db = rowlock_client
    db.create_table("t", mapping=MAPPING, splits=[b"m"])
    table = db.table("t")
    for letter in "az":
        for number in range(20):
            table.put(f"{letter}{number:02}", {"info:delay": b"%d" % number})
    rows = list(table.scan())
    made = db.create_snapshot("s", "t")
    assert (made.name, made.table, made.region_count, made.store_file_count, made.own_bytes) == ("s", "t", 2, 2, 0)
    assert abs(made.made_ms - db.server_info().now_ms) < 600_000
    db.truncate_table("t")
    copy = db.restore_snapshot("s", "copy")
    assert list(copy.scan()) == rows
    assert copy.row("a05") == {b"info:delay": b"5"}
    assert db.describe("copy").mapping == db.describe("t").mapping
    assert [(region.start, region.stop) for region in db.regions("copy")] == [(b"", b"m"), (b"m", b"")]
    db.drop_table("t")
    db.drop_table("copy")
    (held,) = db.named_snapshots()
    assert held.own_bytes == held.store_file_bytes > 0
    status = db.status()
    assert (status.named_snapshot_count, status.named_snapshot_bytes) == (1, held.own_bytes)
    db.drop_snapshot("s")
    assert db.named_snapshots() == []
    assert (db.status().named_snapshot_count, db.status().named_snapshot_bytes) == (0, 0)


def test_a_restored_table_replaces_one_that_the_client_knew(rowlock_client: rowlock.Client) -> None:
    table = rowlock_client.create_table("t", ["f"])
    table.put("r", {"f:q": b"v"})
    rowlock_client.create_snapshot("s", "t")
    table.put("r", {"f:q": b"later"})
    rowlock_client.drop_table("t")
    rowlock_client.restore_snapshot("s", "t")
    assert table.row("r") == {b"f:q": b"v"}


def test_refusals_come_as_errors_of_the_client(rowlock_client: rowlock.Client) -> None:
    db = rowlock_client
    db.create_table("t", ["f"])
    db.create_snapshot("s", "t")
    refused: list[tuple[type[rowlock.RowlockError], str, Callable[[], object]]] = [
        (rowlock.SnapshotExistsError, "drop it first", lambda: db.create_snapshot("s", "t")),
        (rowlock.TableNotFoundError, "absent", lambda: db.create_snapshot("s2", "absent")),
        (rowlock.SnapshotNotFoundError, "'s2'", lambda: db.restore_snapshot("s2", "new")),
        (rowlock.TableExistsError, "'t'", lambda: db.restore_snapshot("s", "t")),
        (rowlock.SnapshotNotFoundError, "'s2'", lambda: db.drop_snapshot("s2")),
        (rowlock.InvalidArgumentError, "name of a snapshot", lambda: db.create_snapshot("a/b", "t")),
        (rowlock.InvalidArgumentError, "name of a table", lambda: db.restore_snapshot("s", "")),
        (rowlock.InvalidArgumentError, "name of a snapshot", lambda: db.drop_snapshot("")),
    ]
    for kind, named, call in refused:
        with pytest.raises(kind, match=named):
            call()
    with pytest.raises(TypeError):
        db.drop_snapshot(5)  # type: ignore[arg-type]
    assert [snapshot.name for snapshot in db.named_snapshots()] == ["s"]
    assert db.tables() == ["t"]


def test_the_lock_of_the_table_keeps_others_out_and_not_its_own_session(
    rowlock_server: RowlockServer, rowlock_client: rowlock.Client
) -> None:
    rowlock_client.create_table("t", ["f"])
    with (
        rowlock_client.lock("t", "exclusive") as lock,
        rowlock.connect(rowlock_server.address, lock_wait_s=0, lock_retries=0) as other,
    ):
        with pytest.raises(rowlock.LockUnavailableError):
            other.create_snapshot("s", "t")
        assert rowlock_client.create_snapshot("s", "t", session=lock.session).region_count == 1


def test_a_snapshot_is_read_as_a_table_of_its_name(
    rowlock_server: RowlockServer, rowlock_client: rowlock.Client
) -> None:
    db = rowlock_client
    table = db.create_table("t", mapping=MAPPING, splits=[b"m"])
    plain = db.table("t")
    for letter in "az":
        for number in range(20):
            plain.put(f"{letter}{number:02}", {"info:delay": number.to_bytes(4, "big")})
    rows, typed = list(plain.scan()), list(table.scan())
    db.create_snapshot("noon", "t")
    plain.put("a05", {"info:delay": bytes(4)})
    plain.delete("z05")
    db.drop_table("t")
    noon = db.table("@noon")
    assert (list(noon.scan()), list(noon.scan(reverse=True))) == (rows, rows[::-1])
    assert list(noon.scan(prefix="z", limit=3)) == rows[20:23]
    assert noon.row("a05") == dict(rows)[b"a05"]
    assert noon.rows(["z19", "absent"]) == [(b"z19", dict(rows)[b"z19"]), (b"absent", {})]
    assert noon.count() == 40
    assert list(db.typed_table("@noon").scan()) == typed
    assert [(region.start, region.state) for region in db.regions("@noon")] == [(b"", "open"), (b"m", "open")]
    assert (db.describe("@noon").name, db.exists("@noon"), db.tables()) == ("@noon", True, [])
    with db.snapshot("@noon") as moment:
        assert list(noon.scan(snapshot=moment)) == rows
    rowlock_server.restart()
    assert list(noon.scan()) == rows
    assert noon.row("z00") == dict(rows)[b"z00"]


def test_a_named_snapshot_is_not_changed(rowlock_client: rowlock.Client) -> None:
    db = rowlock_client
    db.create_table("t", ["f"]).put("r", {"f:q": b"v"})
    db.create_snapshot("s", "t")
    table = db.table("@s")
    data = pa.table({"row": [b"r"], "family": [b"f"], "qualifier": [b"q"], "value": [b"w"]})
    changes: list[Callable[[], object]] = [
        lambda: table.put("r", {"f:q": b"w"}),
        lambda: table.delete("r"),
        lambda: table.increment("r", "f:n"),
        lambda: table.check_and_put("r", "f:q", b"v", {"f:q": b"w"}),
        lambda: table.put_arrow(data),
        lambda: db.split("@s", "q"),
        lambda: db.truncate_table("@s"),
        lambda: db.drop_table("@s"),
        lambda: db.alter_table("@s", drop_families=["f"]),
        lambda: db.compact("@s"),
        lambda: db.create_snapshot("s2", "@s"),
        lambda: db.create_table("@new", ["f"]),
        lambda: db.restore_snapshot("s", "@new"),
    ]
    for change in changes:
        with pytest.raises(rowlock.RowlockError):
            change()
    with pytest.raises(rowlock.InvalidArgumentError, match="restore it"):
        table.put("r", {"f:q": b"w"})
    with pytest.raises(rowlock.BatchError), table.batch() as batch:
        batch.put("r", {"f:q": b"w"})
    assert list(table.scan()) == [(b"r", {b"f:q": b"v"})]
    with pytest.raises(rowlock.SnapshotNotFoundError):
        db.table("@absent").row("r")
    db.drop_snapshot("s")
    with pytest.raises(rowlock.SnapshotNotFoundError):
        list(table.scan())


@pytest.mark.usefixtures("rowlock_client")
def test_with_asyncio_it_is_the_same(rowlock_server: RowlockServer) -> None:
    async def program() -> None:
        async with rowlock.aio.connect(rowlock_server.address) as db:
            table = await db.create_table("t", ["f"])
            await table.put("r", {"f:q": b"v"})
            await db.create_snapshot("s", "t")
            copy = await db.restore_snapshot("s", "copy")
            assert await copy.row("r") == {b"f:q": b"v"}
            assert [snapshot.name for snapshot in await db.named_snapshots()] == ["s"]
            await db.drop_snapshot("s")

    asyncio.run(program())


def test_verify_reads_the_files_of_snapshots(tmp_path: Path) -> None:
    server = RowlockServer(tmp_path / "data", tmp_path / "server.log")
    server.start()
    with rowlock.connect(server.address) as db:
        db.create_table("t", ["f"]).put("r", {"f:q": b"v"})
        db.create_snapshot("s", "t")
        db.drop_table("t")
    server.stop()
    out = io.StringIO()
    assert verify.main([str(server.folder)], out, out) == 0
    assert out.getvalue().startswith("intact: 0 tables, 0 regions, 1 named snapshots, 1 store files, ")
    (path,) = (server.folder / "regions").glob("*/*.store")
    path.write_bytes(path.read_bytes()[:-1])
    out = io.StringIO()
    assert verify.main([str(server.folder)], out, out) == 1
    assert str(path) in out.getvalue()
