"""Bulk writes through a real server: all of it or nothing, from both faces, over a restart."""

from __future__ import annotations

import asyncio

import grpc
import pyarrow as pa
import pytest
import rowlock
from rowlock.pytest_plugin import RowlockServer
from rowlock_proto.v1 import sessions_pb2, sessions_pb2_grpc, types_pb2

from tests.end_to_end.raw_client import RawClient, evidence


@pytest.fixture
def table(rowlock_client: rowlock.Client) -> rowlock.Table[bytes]:
    return rowlock_client.create_table("t", ["f"])


def test_mapped_rows_cells_and_single_rows_become_visible_together(
    rowlock_client: rowlock.Client, table: rowlock.Table[bytes]
) -> None:
    table.put(b"gone", {b"f:q": b"old"})
    rows = pa.table({"id": [f"r{number:05}" for number in range(5000)], "n": pa.array(range(5000), pa.int64())})
    with rowlock_client.bulk_write("t", purpose="load") as write:
        assert write.write(rows, "id STRING :key, n LONG f:n", batch_bytes=10_000) == 5000
        write.put("r00001", {"f:n": b"later"})
        write.delete(b"gone", [b"f:q"])
        [info] = [each for each in rowlock_client.sessions() if each.purpose == "load"]
        assert [item.kind for item in info.held] == ["bulk write"]
        assert list(table.scan()) == [(b"gone", {b"f:q": b"old"})]
    found = dict(table.scan())
    assert len(found) == 5000
    assert found[b"r00001"] == {b"f:n": b"later"}
    assert found[b"r04999"] == {b"f:n": (4999).to_bytes(8, "big")}
    assert write.result is not None
    assert (write.result.row_count, write.commit()) == (5002, write.result)
    assert not write.session.is_open
    with pytest.raises(rowlock.InvalidArgumentError, match="is over; open another one"):
        write.put(b"r", {b"f:q": b"1"})


def test_an_exception_in_the_block_aborts(rowlock_client: rowlock.Client, table: rowlock.Table[bytes]) -> None:
    def fail() -> None:
        with rowlock_client.bulk_write("t") as write:
            write.put(b"r", {b"f:q": b"1"})
            write.write(pa.table({"row": [b"s"], "family": [b"f"], "qualifier": [b"q"], "value": [b"2"]}))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert list(table.scan()) == []
    with rowlock_client.session("mine") as session:
        with rowlock_client.bulk_write("t", session=session) as write:
            write.put(b"r", {b"f:q": b"1"})
            write.abort()
        assert session.is_open
        assert list(table.scan()) == []
        with rowlock_client.bulk_write("t", session=session) as write:
            write.put(b"r", {b"f:q": b"2"})
        assert list(table.scan()) == [(b"r", {b"f:q": b"2"})]
        with rowlock_client.bulk_write("t", session=session) as write:
            write.put(b"r", {b"f:q": b"3"})
        assert list(table.scan()) == [(b"r", {b"f:q": b"3"})]


def test_another_client_does_not_end_a_bulk_write_whose_session_it_knows_by_id(
    rowlock_server: RowlockServer, rowlock_client: rowlock.Client, table: rowlock.Table[bytes]
) -> None:
    with rowlock_client.bulk_write("t") as write, RawClient(rowlock_server.address) as other:
        write.put(b"r", {b"f:q": b"1"})
        sessions = sessions_pb2_grpc.SessionsStub(other.channel)  # type: ignore[no-untyped-call]  # generated code
        ref = types_pb2.SessionRef(session_id=write.session.id)
        for method, request in (
            (sessions.CommitBulkWrite, sessions_pb2.CommitBulkWriteRequest(session=ref, table="t")),
            (sessions.AbortBulkWrite, sessions_pb2.AbortBulkWriteRequest(session=ref, table="t")),
            (sessions.ReleaseLock, sessions_pb2.ReleaseLockRequest(session=ref, lock_id="lock")),
        ):
            with pytest.raises(grpc.RpcError) as refused:
                method(request)
            assert evidence(refused.value).code == types_pb2.Error.INVALID_ARGUMENT
        assert list(table.scan()) == []
    assert list(table.scan()) == [(b"r", {b"f:q": b"1"})]


def test_what_is_staged_survives_a_kill_of_the_server(
    rowlock_server: RowlockServer, rowlock_client: rowlock.Client, table: rowlock.Table[bytes]
) -> None:
    with rowlock_client.bulk_write("t") as write:
        write.write(pa.table({"row": [b"s"], "family": [b"f"], "qualifier": [b"q"], "value": [b"1"]}))
        rowlock_server.kill()
        rowlock_server.restart()
        assert list(table.scan()) == []
        write.write(pa.table({"row": [b"t"], "family": [b"f"], "qualifier": [b"q"], "value": [b"2"]}))
    rowlock_server.kill()
    rowlock_server.restart()
    assert list(table.scan()) == [(b"s", {b"f:q": b"1"}), (b"t", {b"f:q": b"2"})]


def _lose_last_batch(server: RowlockServer) -> str:
    """Removes the file of the newest staged batch while the server is down. Returns its name."""
    server.stop()
    *_, path = sorted(server.folder.glob("staging/*/batch-*"), key=lambda each: int(each.name[len("batch-") :]))
    path.unlink()
    server.restart()
    return str(path)


def test_a_commit_whose_last_batch_was_lost_while_the_server_was_down_is_refused(
    rowlock_server: RowlockServer, rowlock_client: rowlock.Client, table: rowlock.Table[bytes]
) -> None:
    """Also if more batches were staged since. What is left may be aborted."""
    table.put(b"old", {b"f:q": b"1"})
    write = rowlock_client.bulk_write("t", replace=True)
    rows = pa.table({"row": [b"a", b"b"], "family": [b"f"] * 2, "qualifier": [b"q"] * 2, "value": [b"1"] * 2})
    write.write(rows, batch_bytes=1)
    lost = _lose_last_batch(rowlock_server)
    write.put("c", {"f:q": b"1"})
    for _ in range(2):
        with pytest.raises(rowlock.CorruptionError) as refused:
            write.commit()
        assert lost in str(refused.value)
        assert "table 't'" in str(refused.value)
        assert "nothing was committed: abort the bulk write, and write all of it again" in str(refused.value)
        assert list(table.scan()) == [(b"old", {b"f:q": b"1"})]
    assert write.session.is_open
    write.abort()
    with rowlock_client.bulk_write("t", replace=True) as again:
        again.write(rows, batch_bytes=1)
        rowlock_server.restart()
        again.put("c", {"f:q": b"1"})
    assert [row for row, _ in table.scan()] == [b"a", b"b", b"c"]


def test_a_lost_batch_refuses_the_commit_of_the_asyncio_client(
    rowlock_server: RowlockServer, table: rowlock.Table[bytes]
) -> None:
    async def test() -> None:
        async with rowlock.aio.connect(rowlock_server.address) as db, db.bulk_write("t") as write:
            await write.write(pa.table({"row": [b"s"], "family": [b"f"], "qualifier": [b"q"], "value": [b"1"]}))
            await asyncio.to_thread(_lose_last_batch, rowlock_server)

    with pytest.raises(rowlock.CorruptionError):
        asyncio.run(test())
    assert list(table.scan()) == []


def test_a_conflict_names_the_rows_and_a_session_that_was_ended_says_so(
    rowlock_client: rowlock.Client, table: rowlock.Table[bytes]
) -> None:
    table.put(b"r", {b"f:q": b"1"})

    def conflict() -> None:
        with rowlock_client.snapshot("t") as before, rowlock_client.bulk_write("t", snapshot=before) as write:
            write.put(b"r", {b"f:q": b"mine"})
            table.put(b"r", {b"f:q": b"theirs"})

    with pytest.raises(rowlock.ConflictError) as caught:
        conflict()
    assert caught.value.rows == [b"r"]
    assert table.row(b"r") == {b"f:q": b"theirs"}

    def ended() -> None:
        with rowlock_client.bulk_write("t") as write:
            rowlock_client.end_session(write.session.id, reason="enough")
            write.put(b"r", {b"f:q": b"mine"})

    with pytest.raises(rowlock.SessionEndedError, match="enough"):
        ended()
    assert table.row(b"r") == {b"f:q": b"theirs"}


def test_impossible_bulk_writes_are_refused(rowlock_client: rowlock.Client, table: rowlock.Table[bytes]) -> None:
    with pytest.raises(rowlock.TableNotFoundError):
        rowlock_client.bulk_write("nosuch")
    with pytest.raises(rowlock.InvalidArgumentError, match="only one of them"):
        rowlock_client.bulk_write("t", prefix="a", start="b")
    with pytest.raises(rowlock.InvalidArgumentError, match="must sort before stop"):
        rowlock_client.bulk_write("t", start="b", stop="a")
    with pytest.raises(TypeError, match="identity must be a text and a number"):
        rowlock_client.bulk_write("t", identity="daily")  # type: ignore[call-overload]
    write = rowlock_client.bulk_write("t", prefix="a")
    write.put("b", {"f:q": b"1"})
    with pytest.raises(rowlock.InvalidArgumentError, match="not all in the range"):
        write.commit()
    write.put("r", {"nosuch:q": b"1"})
    with pytest.raises(rowlock.FamilyNotFoundError):
        write.commit()
    with pytest.raises(rowlock.TableInUseError):
        rowlock_client.drop_table("t")
    write.abort()
    write.abort()
    assert list(table.scan()) == []


def test_a_bulk_write_of_the_asyncio_client(rowlock_server: RowlockServer, table: rowlock.Table[bytes]) -> None:
    async def test() -> None:
        async with rowlock.aio.connect(rowlock_server.address) as db:
            async with db.bulk_write("t", identity=("daily", 1)) as write:
                await write.put("r", {"f:q": b"1"})
            async with db.bulk_write("t", replace=True) as other:
                await other.put("s", {"f:q": b"2"})
            async with db.bulk_write("t", identity=("daily", 1)) as again:
                await again.put("r", {"f:q": b"3"})
            assert again.result is not None
            assert again.result.is_repeated

    asyncio.run(test())
    assert list(table.scan()) == [(b"s", {b"f:q": b"2"})]
